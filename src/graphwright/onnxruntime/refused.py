"""Names of ONNX Runtime that graphwright does not support: they can be imported, and using them raises an
error with the reason.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from graphwright.onnxruntime.errors import Unsupported

_SPARSE = "graphwright runs dense tensors: make the sparse one dense"
_COMPILER = "use graphwright.compile(path).save('model.om'), and a session on the .om"
_PACKAGE = "graphwright reads ONNX and .om files, no model packages"
_PLUGIN = "graphwright runs on the CPU and loads no execution providers"
_DEVICES = "graphwright runs all nodes on the CPU, whose streams and compatibility it does not describe"
_NATIVE = "this is an inner class of ONNX Runtime: use onnxruntime.InferenceSession"
_SCHEMAS = "use the onnx package: onnx.defs.get_all_schemas()"
_WEIGHTS = "this prepares weights for ONNX Runtime's kernels: use its tools in another process"

REFUSED: Final[dict[str, str]] = {
    "SparseTensor": _SPARSE,
    "SparseCooView": _SPARSE,
    "SparseCsrView": _SPARSE,
    "SparseBlockSparseView": _SPARSE,
    "ModelCompiler": _COMPILER,
    "OrtExternalInitializerInfo": _COMPILER,
    "OrtEpContextData": _COMPILER,
    "OrtEpContextDataBuffer": _COMPILER,
    "ModelPackage": _PACKAGE,
    "ModelPackageContext": _PACKAGE,
    "ModelPackageComponentContext": _PACKAGE,
    "ModelPackageOptions": _PACKAGE,
    "ModelPackageWriteMode": _PACKAGE,
    "register_execution_provider_library": _PLUGIN,
    "unregister_execution_provider_library": _PLUGIN,
    "OrtSyncStream": _DEVICES,
    "OrtEpAssignedNode": _DEVICES,
    "OrtEpAssignedSubgraph": _DEVICES,
    "OrtCompiledModelCompatibility": _DEVICES,
    "OrtDeviceEpIncompatibilityReason": _DEVICES,
    "get_hardware_device_ep_incompatibility_details": _DEVICES,
    "get_model_compatibility_for_ep_devices": _DEVICES,
    "get_compatibility_info_from_model": _DEVICES,
    "get_compatibility_info_from_model_bytes": _DEVICES,
    "SessionObjectInitializer": _NATIVE,
    "get_session_initializer": _NATIVE,
    "ArenaExtendStrategy": _NATIVE,
    "kNextPowerOfTwo": _NATIVE,
    "kSameAsRequested": _NATIVE,
    "opkernel": _SCHEMAS,
    "schemadef": _SCHEMAS,
    "get_all_operator_schema": _SCHEMAS,
    "get_all_opkernel_def": _SCHEMAS,
    "get_registered_ep_kernel_defs": _SCHEMAS,
    "pack_fp4_weights_for_cuda_moe_gemm": _WEIGHTS,
    "quantize_qdq_matmul_2bits": _WEIGHTS,
}
"""The reason for each name."""
PARTS: Final = ("datasets", "quantization", "tools", "training", "transformers")
"""Parts of ONNX Runtime that do more than run models."""


class _Refused(type):
    """A class that cannot be instantiated, called or read."""

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise _error(cls.__name__)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _error(f"{cls.__name__}.{name}")


def refused(name: str) -> type:
    """A stand-in for ``name``, for annotations and ``isinstance``; any other use raises NotImplemented.

    Raises AttributeError for names that ONNX Runtime does not have either.
    """
    if name in PARTS:
        raise AttributeError(_missing_text(name))
    if name not in REFUSED:
        raise AttributeError(f"module 'onnxruntime' has no attribute {name!r}")
    return _Refused(name, (), {})


def _error(name: str) -> Unsupported:
    return Unsupported(f"onnxruntime.{name} is not in graphwright: {REFUSED[name.partition('.')[0]]}")


def missing_part(name: str) -> ModuleNotFoundError:
    """The error for ``onnxruntime.NAME``, one of the missing :data:`PARTS`."""
    return ModuleNotFoundError(_missing_text(name), name=f"onnxruntime.{name}")


def _missing_text(name: str) -> str:
    return (
        f"graphwright.onnxruntime has no {name}: it runs models; for onnxruntime.{name}, install the "
        "onnxruntime package and call graphwright.onnxruntime.install(), or import that package in a process "
        "of its own and run the model that it writes here"
    )
