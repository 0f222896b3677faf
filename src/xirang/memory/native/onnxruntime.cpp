// The mouth for ONNX Runtime, which is handed an allocator through its hook for custom operators.
//
// Without headers of ONNX Runtime: functions are found by their place in its table, which is only
// ever appended to.

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>

#include "exported.hpp"
#include "ground.hpp"

namespace xirang {

void* from_system(size_t bytes) {
  void* address = nullptr;
  if (bytes > SIZE_MAX / 2 || posix_memalign(&address, kAlignment, std::max<size_t>(bytes, 1)))
    throw std::bad_alloc();
  return address;
}

void to_system(void* address) { std::free(address); }

// Never null instead: ONNX Runtime does not look, it falls over.
void refuse(size_t) { throw std::bad_alloc(); }

}  // namespace xirang

namespace {

constexpr uint32_t kApiVersion = 16;

struct OrtAllocator {
  uint32_t version;
  void* (*alloc)(OrtAllocator*, size_t);
  void (*free)(OrtAllocator*, void*);
  const void* (*info)(const OrtAllocator*);
  void* (*reserve)(OrtAllocator*, size_t);
};

struct OrtApiBase {
  const void* (*get_api)(uint32_t);
  const char* (*version)();
};

// Places in the table of functions.
enum { kGetErrorMessage = 2, kCreateEnv = 3, kCreateCpuMemoryInfo = 69, kRegisterAllocator = 176 };

void* allocate(OrtAllocator*, size_t bytes) { return xirang::allocate(bytes); }
void release(OrtAllocator*, void* address) { xirang::release(address); }
void* reserve(OrtAllocator*, size_t bytes) { return xirang::from_system(bytes); }

const void* memory_info = nullptr;
const void* info(const OrtAllocator*) { return memory_info; }
OrtAllocator allocator = {kApiVersion, allocate, release, info, reserve};

std::mutex attaching;
const char* fault = "ONNX Runtime has not called yet";

const char* attach(const OrtApiBase* base) {
  void* const* api = static_cast<void* const*>(base->get_api(kApiVersion));
  if (api == nullptr) return "this ONNX Runtime has no interface of version 16";
  const auto message = reinterpret_cast<const char* (*)(void*)>(api[kGetErrorMessage]);
  const auto create_env =
      reinterpret_cast<void* (*)(int, const char*, void**)>(api[kCreateEnv]);
  const auto create_info =
      reinterpret_cast<void* (*)(int, int, const void**)>(api[kCreateCpuMemoryInfo]);
  const auto add = reinterpret_cast<void* (*)(void*, OrtAllocator*)>(api[kRegisterAllocator]);
  void* env = nullptr;
  constexpr int kLogErrors = 3, kDeviceAllocator = 0, kDefaultMemory = 0;
  // The process has one environment; this hands it out once more.
  if (void* status = create_env(kLogErrors, "xirang", &env)) return message(status);
  if (void* status = create_info(kDeviceAllocator, kDefaultMemory, &memory_info))
    return message(status);
  if (void* status = add(env, &allocator)) return message(status);
  return nullptr;
}

}  // namespace

// ONNX Runtime calls this when the library is given to it as one of custom operators.
XIRANG_EXPORTED void* RegisterCustomOps(void*, const OrtApiBase* base) {
  const std::lock_guard<std::mutex> guard(attaching);
  if (fault != nullptr) fault = attach(base);
  return nullptr;
}

// Null if the allocator is in place, else why not.
XIRANG_EXPORTED const char* xirang_fault() { return fault; }
