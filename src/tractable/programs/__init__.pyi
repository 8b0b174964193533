"""Layer 7: probabilistic programs: the model language, structure found in it, and one `infer`."""

from tractable.programs.flat import Flat as Flat
from tractable.programs.infer import infer as infer
from tractable.programs.language import Model as Model
from tractable.programs.language import deterministic as deterministic
from tractable.programs.language import factor as factor
from tractable.programs.language import model as model
from tractable.programs.language import param as param
from tractable.programs.language import plate as plate
from tractable.programs.language import sample as sample
from tractable.programs.language import scan as scan
from tractable.programs.statement import state as state
from tractable.programs.trace import Trace as Trace
from tractable.programs.trace import bind as bind
