"""Laws of every bijection and of the map onto every support."""

import importlib
import pkgutil
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tractable.bijections
from tractable.bijections.base import Bijection
from tractable.bijections.support import bijection_onto, unconstrain
from tractable.core import support as sets
from tractable.core.support import Support

from .cases_bijections import BIJECTIONS, SUPPORTS

maps = pytest.mark.parametrize("case", BIJECTIONS, ids=str)
kinds = pytest.mark.parametrize("case", SUPPORTS, ids=str)


def _objective(arrays, rest, x):
    y, log_det = eqx.combine(arrays, rest).forward_and_log_det(x)
    return (y**2).sum() + log_det


def _everything(case, bijection, points, coordinates):
    """What the laws look at, at each point: the value and the log-determinant, there and back, Jacobian and
    gradients.
    """
    embed = case.embed or (lambda x: x)
    arrays, rest = eqx.partition(bijection, eqx.is_inexact_array)

    def measured(free):
        y, log_det = bijection.forward_and_log_det(embed(free))
        return case.free(y), (y, log_det)

    def one(x, free):
        jacobian, (y, log_det) = jax.jacfwd(measured, has_aux=True)(free)
        slopes = jax.grad(_objective, (0, 2))(arrays, rest, x)
        return (y, log_det, *bijection.inverse_and_log_det(y)), jacobian, slopes

    return jax.vmap(one)(points, coordinates)


@cache
def _results(case):
    """One compiled program per case: values, Jacobians and gradients at all points."""
    points = jnp.asarray(case.points)
    coordinates = points if case.coordinates is None else jnp.asarray(case.coordinates)
    return jax.jit(lambda b, x, u: _everything(case, b, x, u))(case.build(), points, coordinates)


@maps
def test_there_and_back(case):
    _, _, back, _ = _results(case)[0]
    np.testing.assert_allclose(back, case.points, rtol=1e-10, atol=1e-12)


def _log_volume(jacobian):
    flat = jacobian.reshape((jacobian.shape[0], -1))  # the free coordinates of the image are one vector
    if flat.shape[0] == flat.shape[1]:
        return np.linalg.slogdet(flat)[1]
    return 0.5 * np.linalg.slogdet(flat.T @ flat)[1]  # a surface: the volume of the tangent parallelepiped


@maps
def test_log_det_is_that_of_the_jacobian(case):
    (_, log_dets, *_), jacobians, _ = _results(case)
    for log_det, jacobian in zip(log_dets, np.asarray(jacobians)):
        np.testing.assert_allclose(log_det, _log_volume(jacobian), rtol=1e-9, atol=1e-10)


@maps
def test_inverse_log_det_is_minus_the_forward_one(case):
    _, log_det, _, inverse_log_det = _results(case)[0]
    np.testing.assert_allclose(inverse_log_det, -log_det, rtol=1e-9, atol=1e-11)


@maps
def test_compiled_over_many_points_is_eager_one_by_one(case):
    bijection = case.build()
    y, log_det, *_ = _results(case)[0]
    for i, point in enumerate(case.points):
        value, eager = bijection.forward_and_log_det(point)
        np.testing.assert_allclose(value, y[i], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(eager, log_det[i], rtol=1e-11, atol=1e-12)


@maps
def test_gradients_in_point_and_parameters_are_finite(case):
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(_results(case)[2]))


@maps
def test_points_lie_in_the_domain_and_values_in_the_codomain(case):
    bijection, y = case.build(), np.asarray(_results(case)[0][0])
    assert all(np.all(bijection.domain.contains(point)) for point in case.points)
    assert all(np.all(bijection.codomain.contains(value)) for value in y)


def test_every_public_bijection_is_in_the_registry():
    def parents(cls):
        return {name for base in cls.__mro__ for name in [base.__name__]}

    known = set().union(*(parents(type(case.build())) for case in BIJECTIONS))
    modules = [
        importlib.import_module(m.name)
        for m in pkgutil.iter_modules(tractable.bijections.__path__, "tractable.bijections.")
    ]
    public = {getattr(m, name) for m in modules for name in m.__all__ if isinstance(getattr(m, name), type)}
    assert {cls.__name__ for cls in public if issubclass(cls, Bijection)} <= known


def test_every_continuous_support_is_in_the_registry():
    public = {
        value for value in vars(sets).values() if isinstance(value, type) and issubclass(value, Support)
    }
    continuous = {
        cls for cls in public if not cls.discrete and not cls.__name__.startswith("_") and cls is not Support
    }
    assert continuous <= {type(case.support) for case in SUPPORTS}


@cache
def _support_results(case):
    def everything(members):
        map_ = bijection_onto(case.support)
        free, inverse_log_det = map_.inverse_and_log_det(members)
        other = 2 * jnp.sin(1.0 + jnp.arange(free.size)).reshape(
            free.shape
        )  # free numbers of no special kind
        values, log_dets = jax.vmap(map_.forward_and_log_det)(jnp.stack([free, other]))

        def measured(u):
            value, alone = map_.forward_and_log_det(u)
            return case.free(value), (value, alone)

        jacobians, singly = jax.vmap(jax.jacfwd(measured, has_aux=True))(free)
        return free, inverse_log_det, values, log_dets[0], jacobians, singly

    return jax.jit(everything)(jnp.asarray(case.members))


@kinds
def test_map_onto_support_returns_the_members(case):
    free, inverse_log_det, values, log_det, _, (alone, _) = _support_results(case)
    np.testing.assert_allclose(values[0], case.members, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(alone, case.members, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(inverse_log_det, -log_det, rtol=1e-11)
    assert np.isfinite(free).all()


@kinds
def test_log_dets_of_independent_members_add(case):
    _, _, _, log_det, _, (_, singly) = _support_results(case)
    np.testing.assert_allclose(log_det, singly.sum(), rtol=1e-12, atol=1e-13)


@kinds
def test_map_onto_support_has_the_log_det_of_its_jacobian(case):
    *_, jacobians, (_, singly) = _support_results(case)
    for jacobian, log_det in zip(np.asarray(jacobians), singly):
        np.testing.assert_allclose(log_det, _log_volume(jacobian), rtol=1e-9, atol=1e-10)


@kinds
def test_any_free_numbers_land_in_the_support(case):
    assert np.all(case.support.contains(np.asarray(_support_results(case)[2][1])))


@kinds
def test_unconstrain_returns_the_leaf(case):
    real, rebuild = unconstrain({"leaf": case.members}, {"leaf": case.support})
    rebuilt, log_det = rebuild(real)
    np.testing.assert_allclose(rebuilt["leaf"], case.members, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(log_det, _support_results(case)[3], rtol=1e-12)
