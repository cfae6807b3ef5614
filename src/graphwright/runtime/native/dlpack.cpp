/* Arrays of other libraries whose element types NumPy has no DLPack code for, such as bfloat16. */
#include "binding.hpp"
#include <nanobind/ndarray.h>

namespace {

using Tensor = nb::ndarray<nb::ro, nb::device::cpu>;

template <typename Bits> nb::object view(const Tensor &tensor) {
    auto *held = new Tensor(tensor);
    nb::capsule owner(held, [](void *p) noexcept { delete (Tensor *)p; });
    std::vector<size_t> shape(tensor.ndim());
    std::vector<int64_t> strides(tensor.ndim());
    for (size_t axis = 0; axis < shape.size(); axis++)
        shape[axis] = tensor.shape(axis), strides[axis] = tensor.stride(axis);
    nb::ndarray<nb::numpy, const Bits> bits(tensor.data(), shape.size(), shape.data(), owner, strides.data());
    return nb::cast(bits, nb::rv_policy::reference);
}

/* (bits, code): a view of the elements as unsigned integers of their width, and DLPack's code of their type.
 */
nb::tuple dlpack_bits(const Tensor &tensor) {
    nb::dlpack::dtype type = tensor.dtype();
    if (type.lanes == 1 && type.bits == 8)
        return nb::make_tuple(view<uint8_t>(tensor), (int)type.code);
    if (type.lanes == 1 && type.bits == 16)
        return nb::make_tuple(view<uint16_t>(tensor), (int)type.code);
    throw nb::type_error("its elements are neither of 8 nor of 16 bits");
}

} // namespace

void define_dlpack(nb::module_ &m) { m.def("dlpack_bits", dlpack_bits, nb::arg("tensor")); }
