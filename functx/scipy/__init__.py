"""What functx traces of SciPy: :mod:`functx.scipy.special`. SciPy itself is loaded when it is needed."""
