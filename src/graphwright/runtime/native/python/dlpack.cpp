/* Arrays of other libraries whose element types NumPy has no DLPack code for, such as bfloat16. */
#include "binding.hpp"
#include <nanobind/ndarray.h>

namespace {

using Tensor = nb::ndarray<nb::ro, nb::device::cpu>;

/* The same elements as an array of kind View, whose elements have this type. */
template <typename View> nb::object view(const Tensor &tensor, nb::dlpack::dtype type) {
    auto *held = new Tensor(tensor);
    nb::capsule owner(held, [](void *p) noexcept { delete (Tensor *)p; });
    std::vector<size_t> shape(tensor.ndim());
    std::vector<int64_t> strides(tensor.ndim());
    for (size_t axis = 0; axis < shape.size(); axis++)
        shape[axis] = tensor.shape(axis), strides[axis] = tensor.stride(axis);
    void *data = const_cast<void *>((const void *)tensor.data());
    View made(data, shape.size(), shape.data(), owner, strides.data(), type);
    return nb::cast(made, nb::rv_policy::reference);
}

template <typename Bits> nb::object bits_of(const Tensor &tensor) {
    return view<nb::ndarray<nb::numpy, const Bits>>(tensor, nb::dtype<Bits>());
}

/* (bits, code): a view of the elements as unsigned integers of their width, and DLPack's code of their type.
 */
nb::tuple dlpack_bits(const Tensor &tensor) {
    nb::dlpack::dtype type = tensor.dtype();
    if (type.lanes == 1 && type.bits == 8)
        return nb::make_tuple(bits_of<uint8_t>(tensor), (int)type.code);
    if (type.lanes == 1 && type.bits == 16)
        return nb::make_tuple(bits_of<uint16_t>(tensor), (int)type.code);
    throw nb::type_error("its elements are neither of 8 nor of 16 bits");
}

/* A DLPack capsule of the same elements, whose type has another code. */
nb::object dlpack_capsule(const Tensor &tensor, int code) {
    nb::dlpack::dtype type = tensor.dtype();
    type.code = (uint8_t)code;
    return view<nb::ndarray<>>(tensor, type);
}

} // namespace

void define_dlpack(nb::module_ &m) {
    m.def("dlpack_bits", dlpack_bits, nb::arg("tensor"));
    m.def("dlpack_capsule", dlpack_capsule, nb::arg("tensor"), nb::arg("code"));
}
