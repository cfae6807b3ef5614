/* Reuses the memory of larger outputs. The system allocator would map and unmap it for each output, so that
   kernels would pay for page faults and zeroed pages. NumPy frees an array with the allocator that made it.
 */
#include "binding.hpp"

#include <cstring>
#include <sys/mman.h>

extern "C" {
#include "process.h"
}

namespace {

/* From this size on, glibc may map a block separately or return it to the system when it is freed. */
constexpr size_t MEDIUM = (size_t)128 << 10;
/* From this size on, blocks use huge pages. */
constexpr size_t LARGE = (size_t)32 << 20;
/* The offset of the data in a block: in the middle of a page, since arrays at the start of pages would share
   cache sets. */
constexpr size_t AHEAD = 2112;
constexpr size_t HUGE_PAGE = (size_t)2 << 20;
/* Sizes of medium blocks are multiples of this, so that outputs of similar size can reuse them. */
constexpr size_t STEP = (size_t)64 << 10;

struct Block {
    size_t bytes;
    Block *next;
};

/* Holds the global lock: no other thread accesses the free blocks, and the process does not fork. */
struct Guard {
    Guard() { gw_global_lock(); }
    ~Guard() { gw_global_unlock(); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
};

/* Free blocks, most recently freed first, at most `limit` bytes. */
struct Spare {
    size_t limit;
    Block *first = nullptr;
    size_t bytes = 0;
};

Spare medium{(size_t)32 << 20}, large{(size_t)256 << 20};

Spare &spare_of(size_t bytes) { return bytes < LARGE ? medium : large; }

/* Removes a block from its list. */
Block *unlinked(Spare &spare, Block **at) {
    Block *found = *at;
    *at = found->next;
    spare.bytes -= found->bytes;
    return found;
}

/* Takes the smallest free block of at least `bytes` that is not much larger, or returns null. */
Block *take(size_t bytes) {
    Guard guard;
    Spare &spare = spare_of(bytes);
    Block **best = nullptr;
    for (Block **at = &spare.first; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (*at)->bytes <= bytes + bytes / 4 &&
            (!best || (*at)->bytes < (*best)->bytes))
            best = at;
    return best ? unlinked(spare, best) : nullptr;
}

/* Adds a free block, and unmaps the oldest ones beyond the limit. */
void give(Block *block) {
    Guard guard;
    Spare &spare = spare_of(block->bytes);
    block->next = spare.first;
    spare.first = block;
    spare.bytes += block->bytes;
    while (spare.bytes > spare.limit) {
        Block **last = &spare.first;
        while ((*last)->next)
            last = &(*last)->next;
        Block *oldest = unlinked(spare, last);
        munmap(oldest, oldest->bytes);
    }
}

/* The size of the block for an output of `size` bytes. */
size_t block_bytes(size_t size) {
    const size_t step = size + AHEAD < LARGE - STEP ? STEP : HUGE_PAGE;
    return (size + AHEAD + step - 1) / step * step;
}

void *allocate(void *, size_t size) {
    if (size > SIZE_MAX - AHEAD - HUGE_PAGE)
        return nullptr;
    const size_t bytes = block_bytes(size);
    Block *block = take(bytes);
    if (!block) {
        void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return nullptr;
        if (bytes >= LARGE)
            madvise(mapped, bytes, MADV_HUGEPAGE);
        block = static_cast<Block *>(mapped);
        block->bytes = bytes;
    }
    return (char *)block + AHEAD;
}

void release(void *, void *data, size_t) {
    if (!data)
        return;
    give((Block *)((char *)data - AHEAD));
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
    if ((size_t)bytes < MEDIUM)
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
    int64_t freed = 0;
    for (Spare *spare : {&medium, &large})
        while (spare->first) {
            Block *block = unlinked(*spare, &spare->first);
            freed += (int64_t)block->bytes;
            munmap(block, block->bytes);
        }
    return freed;
}
