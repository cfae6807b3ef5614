/* Memory of large outputs, used again for later ones: the allocator would map each anew, and every page of it
   would have to be found and cleared while a kernel writes. NumPy frees an array by the allocator that made
   it. */
#include "binding.hpp"

#include <cstring>
#include <sys/mman.h>

extern "C" {
#include "process.h"
}

namespace {

/* From here on glibc maps each block by itself, whatever it has learnt. */
constexpr size_t LARGE = (size_t)32 << 20;
/* Bytes of free blocks that are kept at most. */
constexpr size_t KEPT = (size_t)256 << 20;
/* Where data begin in a block: in the middle of a page, since arrays at the start of theirs would meet others
   in a set of the cache. */
constexpr size_t AHEAD = 2112;
constexpr size_t HUGE_PAGE = (size_t)2 << 20;

struct Block {
    size_t bytes;
    Block *next;
};

/* While it lives, no other thread looks at the free blocks, and no process forks. */
struct Guard {
    Guard() { gw_global_lock(); }
    ~Guard() { gw_global_unlock(); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
};

Block *spare = nullptr;
size_t spare_bytes = 0;

/* The smallest free block that holds `bytes` and is not much larger. */
Block *take(size_t bytes) {
    Guard guard;
    Block **best = nullptr;
    for (Block **at = &spare; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (*at)->bytes <= bytes + bytes / 4 &&
            (!best || (*at)->bytes < (*best)->bytes))
            best = at;
    if (!best)
        return nullptr;
    Block *found = *best;
    *best = found->next;
    spare_bytes -= found->bytes;
    return found;
}

/* Whether the block was kept. */
bool give(Block *block) {
    Guard guard;
    if (block->bytes > KEPT - spare_bytes)
        return false;
    block->next = spare;
    spare = block;
    spare_bytes += block->bytes;
    return true;
}

void *allocate(void *, size_t size) {
    if (size > SIZE_MAX - AHEAD - HUGE_PAGE)
        return nullptr;
    const size_t bytes = (size + AHEAD + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    Block *block = take(bytes);
    if (!block) {
        void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return nullptr;
        madvise(mapped, bytes, MADV_HUGEPAGE);
        block = static_cast<Block *>(mapped);
        block->bytes = bytes;
    }
    return (char *)block + AHEAD;
}

void release(void *, void *data, size_t) {
    if (!data)
        return;
    Block *block = (Block *)((char *)data - AHEAD);
    if (!give(block))
        munmap(block, block->bytes);
}

void *allocate_zeros(void *context, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size)
        return nullptr;
    void *data = allocate(context, count * size);
    if (data)
        std::memset(data, 0, count * size);
    return data;
}

/* For ndarray.resize. */
void *reallocate(void *context, void *data, size_t size) {
    void *made = allocate(context, size);
    if (made && data) {
        const size_t had = ((Block *)((char *)data - AHEAD))->bytes - AHEAD;
        std::memcpy(made, data, had < size ? had : size);
        release(context, data, size);
    }
    return made;
}

PyDataMem_Handler handler = {
    "graphwright_outputs", 1, {nullptr, allocate, allocate_zeros, reallocate, release}};

} // namespace

PyObject *new_array(PyArray_Descr *dtype, int rank, npy_intp *shape, int64_t bytes) {
    if ((size_t)bytes < LARGE)
        return PyArray_NewFromDescr(&PyArray_Type, dtype, rank, shape, nullptr, nullptr, 0, nullptr);
    nb::object own = nb::steal(PyCapsule_New(&handler, "mem_handler", nullptr));
    nb::object before = own.is_valid() ? nb::steal(PyDataMem_SetHandler(own.ptr())) : nb::object();
    if (!before.is_valid()) {
        Py_DECREF(dtype);
        return nullptr;
    }
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, dtype, rank, shape, nullptr, nullptr, 0, nullptr);
    nb::steal(PyDataMem_SetHandler(before.ptr()));
    return made;
}

int64_t free_spare_outputs() {
    Guard guard;
    const int64_t freed = (int64_t)spare_bytes;
    while (Block *block = spare) {
        spare = block->next;
        munmap(block, block->bytes);
    }
    spare_bytes = 0;
    return freed;
}
