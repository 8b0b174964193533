"""Layer 2: invertible maps with their log-determinants, and any model as real numbers."""

from tractable.bijections.autoregressive import Autoregressive as Autoregressive
from tractable.bijections.base import Chain as Chain
from tractable.bijections.coupling import Coupling as Coupling
from tractable.bijections.elementwise import Affine as Affine
from tractable.bijections.elementwise import Exp as Exp
from tractable.bijections.elementwise import Identity as Identity
from tractable.bijections.elementwise import Log as Log
from tractable.bijections.elementwise import Logit as Logit
from tractable.bijections.elementwise import Sigmoid as Sigmoid
from tractable.bijections.elementwise import Softplus as Softplus
from tractable.bijections.elementwise import Tanh as Tanh
from tractable.bijections.matrix import LowerTriangular as LowerTriangular
from tractable.bijections.matrix import MatrixMap as MatrixMap
from tractable.bijections.matrix import Whitening as Whitening
from tractable.bijections.simplex import Softmax as Softmax
from tractable.bijections.simplex import StickBreaking as StickBreaking
from tractable.bijections.spline import RationalQuadraticSpline as RationalQuadraticSpline
from tractable.bijections.support import bijection_onto as bijection_onto
from tractable.bijections.support import unconstrain as unconstrain
