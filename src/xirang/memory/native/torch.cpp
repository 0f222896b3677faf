// The mouth for PyTorch on the CPU: an allocator in the place of its own, which serves all the rest.
//
// It is built against the headers of the PyTorch that it will run in, for the table of virtual
// functions is that version's.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <string>

#include "exported.hpp"
#include "ground.hpp"

namespace {

c10::Allocator* previous = nullptr;

class Mouth final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* address = xirang::allocate(bytes);
    return {address, address, &xirang::release, c10::Device(c10::DeviceType::CPU)};
  }

  // oneDNN asks without tensors, and gives back by the address alone.
  c10::DeleterFnPtr raw_deleter() const override { return &xirang::release; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

const char* attach() {
  constexpr uint8_t kAboveUsual = 1;
  previous = c10::GetCPUAllocator();
  if (previous->raw_deleter() == nullptr) return "an allocator is in place that is told no addresses";
  // Never destroyed: tensors are given back until the very end of the process.
  auto* const mouth = new Mouth;
  c10::SetCPUAllocator(mouth, kAboveUsual);
  return c10::GetCPUAllocator() == mouth ? nullptr : "another allocator goes before it";
}

}  // namespace

namespace xirang {

void* from_system(size_t bytes) { return previous->raw_allocate(bytes); }

void to_system(void* address) { previous->raw_deallocate(address); }

void refuse(size_t bytes) {
  C10_THROW_ERROR(OutOfMemoryError,
                  "can't allocate memory: there are no " + std::to_string(bytes) + " bytes more");
}

}  // namespace xirang

// Null if the allocator is in place, where this puts it; else why not.
XIRANG_EXPORTED const char* xirang_fault() {
  static const char* const fault = attach();
  return fault;
}
