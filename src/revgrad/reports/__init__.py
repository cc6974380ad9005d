"""Reports of runs: one self-contained page, pictures as files, a page that follows a training.

- `page`: `write_report`, the file; contents, what it shows; templates/, how it looks
- `run_summary`, `curves`, `clouds`, `classes`, `images`, `grids`, `settings`: the parts of a page,
  as data and as SVG
- `watch`: the page of a run that trains, served to this machine
- `figures`: pictures by matplotlib
"""
