"""The network below a `cutplane.SequenceTagger` in a model file: arrays, never code.

``network.NAME`` are its parameters and buffers, ``n_features`` is how many inputs it has. If it is
one that the library builds, ``network_settings`` holds the parameters of its `NeuralFeatures` as
JSON, in bytes, and the arrays tell the layers. A module of the user's must be given again.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cutplane.estimators import NeuralFeatures, SequenceTagger
from cutplane.io.models.schema import Malformed, arguments_of, checked, plain_value
from cutplane.models.networks.network import import_torch, layers_with

_PREFIX = "network."
_SETTINGS = "network_settings"

Tensors = dict[str, NDArray[Any]]


def tensors_of(tagger: SequenceTagger) -> Tensors:
    """Return the arrays of a fitted tagger's network; none if it has no network."""
    if tagger.network_ is None:
        return {}
    tensors = {
        _PREFIX + name: each.detach().cpu().numpy()
        for name, each in tagger.network_.state_dict().items()
    }
    tensors["n_features"] = np.array([tagger.n_features_in_], dtype=np.int64)
    if isinstance(tagger.features, NeuralFeatures):
        settings = {
            name: plain_value(value) for name, value in tagger.features.get_params().items()
        }
        tensors[_SETTINGS] = np.frombuffer(msgspec.json.encode(settings), dtype=np.uint8)
    return tensors


def take_network(tensors: Tensors, features: Any) -> tuple[Any, Any, int] | None:
    """Take a network's arrays out of others; return `features`, the network, and its inputs.

    None if there is no network. ``features`` is the module that the user gave, or None.
    """
    own = {name: tensors.pop(name) for name in [*tensors] if name.startswith(_PREFIX)}
    settings, sizes = tensors.pop(_SETTINGS, None), tensors.pop("n_features", None)
    if sizes is None:
        if own or settings is not None:
            raise Malformed("a network without its number of features")
        return None
    if sizes.dtype != np.int64 or sizes.shape != (1,) or sizes[0] < 1:
        raise Malformed("the number of features is no positive whole number")
    own = {name.removeprefix(_PREFIX): value for name, value in own.items()}
    for name, value in own.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise Malformed(f"{_PREFIX}{name} has weights that are not finite")
    if settings is None:
        return features, _given(own, features), int(sizes[0])
    described = _described(settings)
    return described, _layers(own, described, int(sizes[0])), int(sizes[0])


def _described(settings: NDArray[Any]) -> NeuralFeatures:
    try:
        content = settings.astype(np.uint8, casting="equiv").tobytes()
        arguments = checked(msgspec.json.decode(content), arguments_of(NeuralFeatures))
        values = msgspec.structs.asdict(arguments)
        features = NeuralFeatures(**values | {"hidden": tuple(values["hidden"])})
        features.check()
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"the settings of its network: {error}") from None
    return features


def _layers(own: Tensors, features: NeuralFeatures, n_features: int) -> Any:
    """Return the layers that the settings describe, with the weights of the file."""
    sizes = [n_features, *features.hidden]
    weights = []
    for k in range(len(features.hidden)):
        weight, bias = (own.pop(f"{2 * k}.{part}", None) for part in ("weight", "bias"))
        expected = (sizes[k + 1], sizes[k])
        if weight is None or bias is None or weight.dtype != np.float64 or bias.dtype != np.float64:
            raise Malformed(f"no weights of layer {k} in float64")
        if weight.shape != expected or bias.shape != expected[:1]:
            raise Malformed(f"layer {k} has weights of shape {weight.shape}, expected {expected}")
        weights.append((weight, bias))
    if own:
        raise Malformed(f"arrays {', '.join(sorted(own))} of its network")
    return layers_with(weights)


def _given(own: Tensors, module: Any) -> Any:
    """Return a copy of the user's module with the arrays of the file."""
    if module is None:
        raise Malformed(
            "it stands on a module of your own, which is not in the file; give it again: "
            "load_model(path, features=module)"
        )
    torch = import_torch()
    network = deepcopy(module)
    expected = {name: tuple(each.shape) for name, each in network.state_dict().items()}
    found = {name: value.shape for name, value in own.items()}
    if expected != found:
        name = next(name for name in {**expected, **found} if expected.get(name) != found.get(name))
        raise Malformed(
            f"the module that was given does not fit: {name} has shape {expected.get(name)}, in "
            f"the file {found.get(name)}"
        )
    with torch.no_grad():
        for name, each in network.state_dict().items():
            each.copy_(torch.from_numpy(own[name].copy()))
    return network
