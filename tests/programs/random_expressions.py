"""Random expressions of what a random program has sampled so far, by shape: the parameters of its next sites.

Most are affine in the real latents: sums, gathers, products with data, tables by a label. Some are not, so
that structure must be found and not assumed.
"""

import contextlib

import jax.numpy as jnp
import numpy as np

from tractable.programs import plate


class Expressions:
    """What is known while a program is written: `reals` and `wholes` hold expressions by shape, functions of
    the values so far; those of whole numbers with the number of their values."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        rows, groups, steps = rng.integers(3, 6), rng.integers(2, 4), rng.integers(2, 5)
        self.shapes = {"one": (), "group": (groups,), "row": (rows,), "cell": (groups, 2), "step": (steps,)}
        self.shapes = {kind: tuple(map(int, shape)) for kind, shape in self.shapes.items()}
        self.data = {
            "of_row": rng.integers(groups, size=rows),
            "design": rng.normal(size=(rows, 2)),
            "inputs": rng.normal(size=steps),
        }
        self.reals = {kind: [] for kind in (*self.shapes, "pair", "pairs")}
        self.wholes = {kind: [] for kind in self.shapes}
        self.positives, self.weights, self.statements = [], {}, []
        self.assignments, self.count = 1, 0

    # --- small choices -----------------------------------------------------------------------------

    def chance(self, share):
        return self.rng.random() < share

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def given(self, values):
        """Data under a name of their own."""
        name = self.name("data")
        self.data[name] = np.asarray(values)
        return lambda env: env[name]

    def kind(self, *kinds):
        return self.pick(kinds or ("one", "group", "row", "row", "cell", "step"))

    def places(self, kind):
        """The plates around a site of this shape."""
        shape = self.shapes[kind]

        @contextlib.contextmanager
        def around():
            with contextlib.ExitStack() as stack:
                for place, size in enumerate(shape):
                    stack.enter_context(plate(f"{'group' if kind == 'cell' and not place else kind}s", size))
                yield

        return around

    # --- expressions -------------------------------------------------------------------------------

    def real(self, kind, depth=2):
        """A real expression of this shape: affine in latents for the most part."""
        shape, found = self.shapes[kind], list(self.reals[kind])
        found += [self.spread(each, kind) for each in self.reals["one"]]
        if kind == "row":
            found += [lambda env, v=v: v(env)[env["of_row"]] for v in self.reals["group"]]
            found += [lambda env, v=v: env["design"] @ v(env) for v in self.reals["pair"]]
            found += [
                lambda env, v=v: (v(env)[env["of_row"]] * env["design"]).sum(1) for v in self.reals["pairs"]
            ]
        if kind == "cell":
            ones = np.ones((1, 2))
            found += [lambda env, v=v: v(env)[:, None] * ones for v in self.reals["group"]]
        if kind == "one":
            for other in ("group", "row", "cell", "pair", "step"):
                place = (0,) * (2 if other == "cell" else 1)
                found += [lambda env, v=v, place=place: v(env)[place] for v in self.reals[other]]
                found += [lambda env, v=v: 0.5 * v(env).sum() for v in self.reals[other]]
        if self.chance(0.25):
            means = self.table_of_reals(kind)
            found = found if means is None else [means]
        if not found or self.chance(0.15):
            value = self.rng.normal(size=shape)
            return self.given(value) if self.chance(0.5) else (lambda env: jnp.asarray(value))
        first = self.pick(found)
        turn = self.rng.random()
        if turn < 0.25 and depth:
            second, slope = self.real(kind, depth - 1), self.rng.normal()
            return lambda env: first(env) + slope * second(env)
        if turn < 0.45:
            slope = self.given(self.rng.normal(size=shape))
            return lambda env: slope(env) * first(env) - 0.3
        if turn < 0.50 and depth:
            second = self.real(kind, depth - 1)
            return lambda env: first(env) * second(env)
        if turn < 0.53:
            return lambda env: jnp.sin(first(env))
        if turn < 0.60 and shape:
            order = self.rng.permutation(shape[0])
            return lambda env: first(env)[order] - jnp.flip(first(env), 0)
        return first

    def spread(self, scalar, kind):
        shape = self.shapes[kind]
        return lambda env: jnp.broadcast_to(scalar(env), shape)

    def whole(self, kind):
        """A discrete expression of this shape and the number of its values; none if there is no latent."""
        found = list(self.wholes[kind])
        shape = self.shapes[kind]
        found += [(lambda env, z=z: jnp.broadcast_to(z(env), shape), card) for z, card in self.wholes["one"]]
        if kind == "row":
            found += [(lambda env, z=z: z(env)[env["of_row"]], card) for z, card in self.wholes["group"]]
        if kind == "cell":
            blank = np.zeros((1, 2), int)
            found += [(lambda env, z=z: z(env)[:, None] + blank, card) for z, card in self.wholes["group"]]
        if kind == "one":
            found += [(lambda env, z=z: z(env)[-1], card) for z, card in self.wholes["group"]]
        return self.pick(found) if found else None

    def table_of_reals(self, kind):
        """Means by component, which are fixed or latent."""
        index = self.whole(kind)
        if index is None:
            return None
        z, card = index
        if self.chance(0.5):
            means = self.given(self.rng.normal(size=card))
            return lambda env: means(env)[z(env)]
        parts = [self.real("one", 0) for _ in range(card)]
        return lambda env: jnp.stack([part(env) for part in parts])[z(env)]

    def positive(self, kind):
        shape, turn = self.shapes[kind], self.rng.random()
        if turn < 0.5 and self.positives:
            scale = self.pick(self.positives)
            return lambda env: jnp.broadcast_to(scale(env), shape)
        if turn < 0.57:
            root = self.real(kind, 1)
            return lambda env: jnp.exp(0.3 * root(env))
        index = self.whole(kind) if turn < 0.67 else None
        if index is not None:
            table = self.given(self.rng.uniform(0.5, 1.5, index[1]))
            return lambda env: table(env)[index[0](env)]
        return self.given(self.rng.uniform(0.5, 1.5, shape))

    def logits(self, kind, card):
        """Log-weights `(*shape, card)`: fixed, by a table of another discrete latent, or of real latents."""
        shape, turn = self.shapes[kind], self.rng.random()
        index = self.whole(kind) if turn < 0.55 else None
        if index is not None:
            z, rows = index
            table = self.given(self.rng.normal(size=(rows, card)))
            return lambda env: table(env)[z(env)]
        if turn < 0.7 and card in self.weights:
            weights = self.weights[card]
            return lambda env: jnp.broadcast_to(jnp.log(weights(env)), (*shape, card))
        if turn < 0.8:
            parts = [self.real(kind, 1) for _ in range(card - 1)]
            return lambda env: jnp.stack([jnp.zeros(shape), *(part(env) for part in parts)], -1)
        return self.given(self.rng.normal(size=(*shape, card)))
