"""A job's domains: labels hidden from those who must not see them, cut to the budget."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from revgrad import Domain, open_domain
from revgrad.domains import Colours, match_colours
from revgrad.domains.domain import Augmentation
from revgrad.domains.few_per_class import few_per_class
from revgrad.paper.baselines.linear_svm import stratified_rows
from revgrad.paper.data.office import labelled_per_class
from revgrad.paper.tables.job import Job
from revgrad.paper.tables.job_recipe import OF_RECOMMENDED

#: Share of a source that is held out where all of it is labelled.
HELD_OUT = 0.2


class JobData(NamedTuple):
    """A cell's domains as a method gets them."""

    source: Domain  # labelled, what is held out not in it
    target: Domain | None  # with the labels that the method may see, and no others
    held_out: Domain | None
    test: Domain  # labelled, for the end


def open_job_data(job: Job, size: int | None = None) -> JobData:
    """The domains of a job on images.

    Parameters
    ----------
    size
        of the images, where not that of the job's network
    """
    cell, budget, method, size = job.cell, job.budget, job.method, size or image_size(job)
    if cell.fine_tuned:
        return _saenko_data(job, size)
    if cell.whole_source:
        return _whole_source_data(job, size)
    source = stratified_sample(open_at_size(cell.source, size), budget.samples, 0)
    target = random_sample(open_at_size(cell.target, size), budget.samples)
    test = open_at_size(cell.test, size)
    source, target, test = match_colours([source, target, test])
    source = source.augmented(source_augmentation(method))
    seen: Domain | None
    if cell.labelled:
        known, rest = target_labels(target, cell.labelled, job.seed)
        labelled = known.subset(np.flatnonzero(known.labelled))
        seen = known if cell.others else labelled
        if not cell.others:
            test = rest  # what is not labelled is the test
        if method == "real-only":
            source, seen = labelled, None
    elif method == "train-on-target":
        source, seen = target, None
    else:
        seen = target.without_labels()
    test = random_sample(test, budget.test_samples)
    if method == "real-only":
        return JobData(source, None, None, test)  # too few to hold any back
    training, held_out = source.split()
    held_out = stratified_sample(held_out, budget.test_samples, 0)
    one_domain = method in ("source-only", "train-on-target", "synthetic-only")
    return JobData(training, None if one_domain else seen, held_out, test)


def _saenko_data(job: Job, size: int) -> JobData:
    """Few labelled source images a class; the whole target, unlabelled, is the test as well."""
    cell, count = job.cell, job.budget.test_samples
    source = open_at_size(cell.source, size)
    training, rest = few_per_class(source, labelled_per_class(cell.source), job.seed)
    held_out = None if rest is None else stratified_sample(rest, count, 0)
    test = random_sample(open_at_size(cell.target, size), count)
    seen = None if job.method == "source-only" else test.without_labels()
    return JobData(training, seen, held_out, test)


def _whole_source_data(job: Job, size: int) -> JobData:
    """Every source image but the held-out share; the whole target, unlabelled, is the test too."""
    cell, budget = job.cell, job.budget
    source = stratified_sample(open_at_size(cell.source, size), budget.samples, 0)
    training, held_out = source.split(HELD_OUT, job.seed)
    test = random_sample(open_at_size(cell.target, size), budget.test_samples)
    seen = None if job.method == "source-only" else test.without_labels()
    return JobData(training, seen, held_out, test)


def source_augmentation(method: str) -> Augmentation | None:
    """What is drawn anew for each source image: prior knowledge that a method's name declares."""
    return Colours() if method == "recommended-colours" else None


def image_size(job: Job) -> int:
    """Side of the images that the job's network sees: the recommended one takes them as is."""
    native = job.cell.native if job.method in OF_RECOMMENDED else None
    return native or job.cell.size


def target_labels(target: Domain, count: int, seed: int) -> tuple[Domain, Domain]:
    """The target with `count` random labels, the others dropped; and the samples whose labels were
    dropped, with them."""
    known = target.keeping_labels(min(count, len(target)), seed)
    return known, target.subset(np.flatnonzero(~known.labelled))


def stratified_sample(domain: Domain, count: int | None, seed: int) -> Domain:
    """At most `count` samples of a labelled domain, each class by its share."""
    if count is None or len(domain) <= count or domain.labels is None:
        return domain
    return domain.subset(stratified_rows(domain.labels, count, seed))


def random_sample(domain: Domain, count: int | None) -> Domain:
    """At most `count` random samples, whatever their labels: of the target's, which must not
    matter."""
    if count is None or len(domain) <= count:
        return domain
    return domain.subset(np.sort(np.random.default_rng(0).permutation(len(domain))[:count]))


@lru_cache(maxsize=6)
def open_at_size(text: str, size: int) -> Domain:
    """A domain at one size; kept, as several jobs of a process want the same."""
    return open_domain(text, size=size)
