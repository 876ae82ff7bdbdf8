"""Image-valued processes Y(x): data sets, the paper's architectures, a generator with latent classes, and its judges.

Lives here: readers and streams of images, models of images in torch, scores of image draws. May not live here: the
library's own layers and objectives, which are used as they are. Reading HDF5 needs ``pip install 'dtmgp[images]'``.
"""

from dtmgp.images.rc49 import RC49, load_rc49, write_rc49

__all__ = ["RC49", "load_rc49", "write_rc49"]
