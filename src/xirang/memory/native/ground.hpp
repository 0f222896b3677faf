// What the ground and a mouth of the allocator are to each other.
//
// The ground knows who lives where. A mouth is how one runtime asks: it turns that runtime's words
// into `allocate` and `release`, and says where memory comes from when no run has a place for it.
// Each library has one mouth.

#pragma once

#include <cstddef>
#include <cstdint>

namespace xirang {

constexpr int64_t kAlignment = 64;

// ------------------------------------------------------------------ of the ground

// In the run of this thread where it was planned, else from the system; null for no bytes.
void* allocate(size_t bytes);

// From any thread, long after the run too.
void release(void* address);

// ------------------------------------------------------------------ of the mouth

// Not null: throws as its runtime expects it if there is nothing.
void* from_system(size_t bytes);

void to_system(void* address);

// Throws what its runtime takes for a lack of memory.
[[noreturn]] void refuse(size_t bytes);

}  // namespace xirang
