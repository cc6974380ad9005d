"""Cut any network at a layer: feature extractor in front of it, label predictor behind it.

`cuts.py` puts the parts together; `tracing.py` gets a graph of the network, `splitting.py` cuts the
graph in two, `tap.py` is the way for networks without a graph and `crossing.py` watches it,
`listing.py` lists the layers.
"""

from revgrad.cutting.cuts import Cut, CutOutput, cut, cut_at_all
from revgrad.cutting.listing import Layer, layers
from revgrad.cutting.tap import call_order

__all__ = ["Cut", "CutOutput", "Layer", "call_order", "cut", "cut_at_all", "layers"]
