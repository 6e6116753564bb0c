#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "paceline/base/testing/child_process.h"
#include "paceline/transport/ipc/passed_descriptors.h"

// These are the driver's functions as a program sees them.
extern "C" {
using Pointer = std::uint64_t;
struct Location {
  int type;
  int id;
};
struct Properties {
  int type;
  int handle_types;
  Location location;
  void* windows;
  unsigned char flags[8];
};
struct Access {
  Location location;
  int flags;
};
struct HostKernel {  // paceline/parameters/cuda/host_kernels.h
  void (*run)(void** arguments, unsigned blocks, unsigned threads);
  const unsigned* sizes;
  int count;
};
int cuInit(unsigned);
int cuGetErrorName(int, const char**);
int cuDeviceGetCount(int*);
int cuDeviceGetUuid_v2(unsigned char*, int);
int cuDeviceGetAttribute(int*, int, int);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemGetInfo_v2(std::size_t*, std::size_t*);
int cuMemGetAllocationGranularity(std::size_t*, const Properties*, int);
int cuMemCreate(unsigned long long*, std::size_t, const Properties*, unsigned long long);
int cuMemExportToShareableHandle(void*, unsigned long long, int, unsigned long long);
int cuMemImportFromShareableHandle(unsigned long long*, void*, int);
int cuMemAddressReserve(Pointer*, std::size_t, std::size_t, Pointer, unsigned long long);
int cuMemMap(Pointer, std::size_t, std::size_t, unsigned long long, unsigned long long);
int cuMemSetAccess(Pointer, std::size_t, const Access*, std::size_t);
int cuMemUnmap(Pointer, std::size_t);
int cuMemAddressFree(Pointer, std::size_t);
int cuMemRelease(unsigned long long);
int cuStreamCreate(void**, unsigned);
int cuStreamDestroy_v2(void*);
int cuStreamSynchronize(void*);
int cuStreamQuery(void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cuEventCreate(void**, unsigned);
int cuEventRecord(void*, void*);
int cuEventQuery(void*);
int cuEventSynchronize(void*);
int cuEventDestroy_v2(void*);
int cuMemcpyHtoDAsync_v2(Pointer, const void*, std::size_t, void*);
int cuMemcpyHtoD_v2(Pointer, const void*, std::size_t);
int cuMemcpyDtoH_v2(void*, Pointer, std::size_t);
int cuMemcpyDtoDAsync_v2(Pointer, Pointer, std::size_t, void*);
int cuMemsetD32Async(Pointer, unsigned, std::size_t, void*);
int cuMemHostRegister_v2(void*, std::size_t, unsigned);
int cuMemHostUnregister(void*);
int cuMemHostGetDevicePointer_v2(Pointer*, void*, unsigned);
int cuMemHostAlloc(void**, std::size_t, unsigned);
int cuMemFreeHost(void*);
int cuStreamWaitValue32_v2(void*, Pointer, std::uint32_t, unsigned);
int cuStreamWriteValue32_v2(void*, Pointer, std::uint32_t, unsigned);
int cuLaunchHostFunc(void*, void (*)(void*), void*);
int cuModuleLoadData(void**, const void*);
int cuModuleUnload(void*);
int cuModuleGetFunction(void**, void*, const char*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**);
}

namespace paceline::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBytes = 4 * kMiB;
constexpr Properties kProperties = {1, 1, {1, 0}, nullptr, {}};

// Tests run in children: the driver belongs to the process that began it.
int in_process(const std::function<int(const testing::ChildProcess::Parent&)>& run) {
  testing::ChildProcess child(run);
  return child.wait();
}

// Ends the child with the number of the line that went wrong.
#define MUST(condition)                                                    \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (0)

void begin(const std::string& name, std::size_t bytes = 0) {
  setenv("PACELINE_STAND_IN_NAME", (name + std::to_string(getppid())).c_str(), 1);
  if (bytes > 0) setenv("PACELINE_STAND_IN_BYTES", std::to_string(bytes).c_str(), 1);
  void* context = nullptr;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
    std::abort();
}

Pointer mapped(unsigned long long handle, int flags = 3) {
  Pointer address = 0;
  const Access access = {{1, 0}, flags};
  if (cuMemAddressReserve(&address, kBytes, 0, 0, 0) != 0 || cuMemMap(address, kBytes, 0, handle, 0) != 0 ||
      cuMemSetAccess(address, kBytes, &access, 1) != 0) {
    std::abort();
  }
  return address;
}

Pointer allocated() {
  unsigned long long handle = 0;
  if (cuMemCreate(&handle, kBytes, &kProperties, 0) != 0) std::abort();
  const Pointer address = mapped(handle);
  if (cuMemRelease(handle) != 0) std::abort();  // the mapping keeps the memory
  return address;
}

void send_descriptor(int socket, int fd) {
  if (!ipc::send_with_descriptors(socket, "x", {&fd, 1})) std::abort();
}

int receive_descriptor(int socket) {
  auto message = ipc::receive_with_descriptors(socket, 1);
  if (!message || message->descriptors.size() != 1) std::abort();
  return message->descriptors.front().release();
}

unsigned* shared_words() {
  void* words = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return words == MAP_FAILED ? nullptr : static_cast<unsigned*>(words);
}

Pointer registered(unsigned* words) {
  Pointer address = 0;
  if (cuMemHostRegister_v2(words, 4096, 2) != 0 || cuMemHostGetDevicePointer_v2(&address, words, 0) != 0)
    std::abort();
  return address;
}

TEST(StandInDriver, MemoryIsSharedOverADescriptor) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  testing::ChildProcess owner([&](const auto& parent) {
    begin("shared");
    unsigned long long handle = 0;
    MUST(cuMemCreate(&handle, kBytes, &kProperties, 0) == 0);
    const Pointer memory = mapped(handle);
    int fd = -1;
    MUST(cuMemExportToShareableHandle(&fd, handle, 1, 0) == 0);
    const float values[2] = {1.5f, -2.5f};
    MUST(cuMemcpyHtoD_v2(memory + 64, values, sizeof values) == 0);
    send_descriptor(sockets[0], fd);
    parent.hear();
    float answer = 0;
    MUST(cuMemcpyDtoH_v2(&answer, memory + kBytes - 4, 4) == 0);
    MUST(answer == 7.0f);
    return 0;
  });
  testing::ChildProcess other([&](const auto&) {
    begin("shared");
    const int fd = receive_descriptor(sockets[1]);
    unsigned long long handle = 0;
    MUST(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                        1) == 0);
    MUST(close(fd) == 0);  // the handle has its own
    const Pointer memory = mapped(handle);
    float values[2] = {};
    MUST(cuMemcpyDtoH_v2(values, memory + 64, sizeof values) == 0);
    MUST(values[0] == 1.5f && values[1] == -2.5f);
    const float answer = 7;
    MUST(cuMemcpyHtoD_v2(memory + kBytes - 4, &answer, 4) == 0);
    return 0;
  });
  EXPECT_EQ(other.wait(), 0);
  owner.say("go on");
  EXPECT_EQ(owner.wait(), 0);
}

TEST(StandInDriver, ADescriptorKeepsMemoryBeyondItsOwnersDeath) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  testing::ChildProcess owner([&](const auto& parent) {
    begin("kept");
    unsigned long long handle = 0;
    MUST(cuMemCreate(&handle, kBytes, &kProperties, 0) == 0);
    const unsigned value = 17;
    MUST(cuMemcpyHtoD_v2(mapped(handle), &value, 4) == 0);
    int fd = -1;
    MUST(cuMemExportToShareableHandle(&fd, handle, 1, 0) == 0);
    send_descriptor(sockets[0], fd);
    parent.hear();
    return 0;
  });
  const int fd = receive_descriptor(sockets[1]);
  owner.kill();
  EXPECT_EQ(in_process([&](const auto&) {
              begin("kept");
              unsigned long long handle = 0;
              void* descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
              MUST(cuMemImportFromShareableHandle(&handle, descriptor, 1) == 0);
              unsigned value = 0;
              MUST(cuMemcpyDtoH_v2(&value, mapped(handle), 4) == 0);
              MUST(value == 17);
              return 0;
            }),
            0);
  close(fd);
}

TEST(StandInDriver, StreamsOfTwoProcessesWaitForEachOthersWords) {
  unsigned* words = shared_words();
  ASSERT_NE(words, nullptr);
  const auto play = [&](int own) {
    return [words, own](const auto&) {
      begin("words");
      const Pointer at = registered(words);
      void* stream = nullptr;
      MUST(cuStreamCreate(&stream, 1) == 0);
      for (unsigned turn = 1; turn <= 100; ++turn) {
        // Player 0 writes word 0 and waits for word 1; player 1 waits first.
        if (own == 1) MUST(cuStreamWaitValue32_v2(stream, at, turn, 0) == 0);
        MUST(cuStreamWriteValue32_v2(stream, at + 4 * static_cast<unsigned>(own), turn, 0) == 0);
        if (own == 0) MUST(cuStreamWaitValue32_v2(stream, at + 4, turn, 0) == 0);
      }
      MUST(cuStreamSynchronize(stream) == 0);
      MUST(words[own] == 100);
      return 0;
    };
  };
  testing::ChildProcess first(play(0)), second(play(1));
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  munmap(words, 4096);
}

TEST(StandInDriver, AStreamWaitsUntilTheHostWritesTheWord) {
  EXPECT_EQ(in_process([](const auto&) {
              begin("host");
              unsigned* words = shared_words();
              const Pointer at = registered(words);
              const Pointer memory = allocated();
              void* stream = nullptr;
              MUST(cuStreamCreate(&stream, 1) == 0);
              words[0] = 0xfffffffeu;  // before 1: numbers are compared as CUDA does, round the corner
              MUST(cuStreamWaitValue32_v2(stream, at, 1, 0) == 0);
              MUST(cuMemsetD32Async(memory, 5, 1, stream) == 0);
              MUST(cuStreamQuery(stream) == 600);
              unsigned value = 9;
              MUST(cuMemcpyDtoH_v2(&value, memory, 4) == 0);  // on another stream
              MUST(value == 0);
              __atomic_store_n(&words[0], 2u, __ATOMIC_RELEASE);
              MUST(cuStreamSynchronize(stream) == 0);
              MUST(cuMemcpyDtoH_v2(&value, memory, 4) == 0);
              MUST(value == 5);
              // Only the same number will do for "equal".
              MUST(cuStreamWaitValue32_v2(stream, at, 1, 1) == 0);
              MUST(cuStreamQuery(stream) == 600);
              __atomic_store_n(&words[0], 1u, __ATOMIC_RELEASE);
              MUST(cuStreamSynchronize(stream) == 0);
              return 0;
            }),
            0);
}

TEST(StandInDriver, ADestroyedStreamWaitsNoMore) {
  EXPECT_EQ(in_process([](const auto&) {
              begin("destroyed");
              unsigned* words = shared_words();
              const Pointer at = registered(words);
              void* stream = nullptr;
              void* event = nullptr;
              MUST(cuStreamCreate(&stream, 1) == 0 && cuEventCreate(&event, 0) == 0);
              MUST(cuStreamWriteValue32_v2(stream, at + 4, 3, 0) == 0);
              MUST(cuStreamWaitValue32_v2(stream, at, 1, 0) == 0);
              MUST(cuStreamWriteValue32_v2(stream, at + 8, 3, 0) == 0);
              MUST(cuEventRecord(event, stream) == 0);
              MUST(cuStreamDestroy_v2(stream) == 0);
              MUST(words[1] == 3 && words[2] == 0);  // all before the wait is done, and no more
              MUST(cuEventSynchronize(event) == 0);
              MUST(cuStreamSynchronize(stream) == 400);
              // A stream that still waits holds no process back.
              MUST(cuStreamCreate(&stream, 1) == 0);
              MUST(cuStreamWaitValue32_v2(stream, at, 1, 0) == 0);
              return 0;
            }),
            0);
}

TEST(StandInDriver, AStreamKeepsItsOrderAndEventsJoinStreams) {
  EXPECT_EQ(
      in_process([](const auto&) {
        begin("order");
        const Pointer memory = allocated();
        void *one = nullptr, *two = nullptr, *event = nullptr;
        MUST(cuStreamCreate(&one, 1) == 0 && cuStreamCreate(&two, 0) == 0 && cuEventCreate(&event, 2) == 0);
        MUST(cuEventQuery(event) == 0);               // never recorded
        MUST(cuStreamWaitEvent(two, event, 0) == 0);  // so nothing to wait for
        unsigned* words = shared_words();
        const Pointer at = registered(words);
        MUST(cuStreamWaitValue32_v2(one, at, 1, 0) == 0);
        for (unsigned value = 1; value <= 1000; ++value) MUST(cuMemsetD32Async(memory, value, 4, one) == 0);
        MUST(cuEventRecord(event, one) == 0);
        MUST(cuStreamWaitEvent(two, event, 0) == 0);
        MUST(cuMemcpyDtoDAsync_v2(memory + 64, memory, 16, two) == 0);
        MUST(cuEventQuery(event) == 600);
        static std::vector<int> calls;
        const auto call = [](void* number) { calls.push_back(*static_cast<int*>(number)); };
        int numbers[3] = {0, 1, 2};
        for (int& number : numbers) MUST(cuLaunchHostFunc(two, call, &number) == 0);
        __atomic_store_n(&words[0], 1u, __ATOMIC_RELEASE);
        MUST(cuStreamSynchronize(two) == 0);
        MUST(cuEventQuery(event) == 0);
        unsigned values[4] = {};
        MUST(cuMemcpyDtoH_v2(values, memory + 64, sizeof values) == 0);
        for (unsigned value : values) MUST(value == 1000);
        MUST((calls == std::vector<int>{0, 1, 2}));
        MUST(cuEventDestroy_v2(event) == 0 && cuStreamDestroy_v2(one) == 0 && cuStreamDestroy_v2(two) == 0);
        return 0;
      }),
      0);
}

TEST(StandInDriver, ACardIsFullForAllProcessesUntilMemoryIsGivenBack) {
  const auto room = [](const auto& parent) {
    begin("full", 3 * kBytes);
    unsigned long long handles[2] = {};
    MUST(cuMemCreate(&handles[0], kBytes, &kProperties, 0) == 0);
    MUST(cuMemCreate(&handles[1], kBytes, &kProperties, 0) == 0);
    const Pointer address = mapped(handles[1]);
    parent.say("two of three");
    parent.hear();
    MUST(cuMemRelease(handles[0]) == 0);
    MUST(cuMemRelease(handles[1]) == 0);  // the memory is still mapped
    parent.say("one of three");
    parent.hear();
    MUST(cuMemUnmap(address, kBytes) == 0 && cuMemAddressFree(address, kBytes) == 0);
    parent.say("none");
    parent.hear();
    return 0;
  };
  testing::ChildProcess other(room);
  EXPECT_EQ(other.hear(), "two of three");
  ASSERT_EQ(in_process([&](const auto&) {
              begin("full", 3 * kBytes);
              std::size_t free = 0, total = 0;
              MUST(cuMemGetInfo_v2(&free, &total) == 0 && free == kBytes && total == 3 * kBytes);
              unsigned long long handle = 0;
              MUST(cuMemCreate(&handle, 2 * kBytes, &kProperties, 0) == 2);
              MUST(cuMemCreate(&handle, kBytes, &kProperties, 0) == 0);
              MUST(cuMemCreate(&handle, kBytes, &kProperties, 0) == 2);
              other.say("go on");
              MUST(other.hear() == "one of three");
              MUST(cuMemGetInfo_v2(&free, &total) == 0 && free == kBytes);
              other.say("go on");
              MUST(other.hear() == "none");
              MUST(cuMemCreate(&handle, 2 * kBytes, &kProperties, 0) == 0);
              other.say("go on");
              return 0;
            }),
            0);
  EXPECT_EQ(other.wait(), 0);
}

TEST(StandInDriver, AccessIsAsItWasAskedFor) {
  const auto use = [](int flags, bool write) {
    return in_process([=](const auto&) {
      begin("access");
      unsigned long long handle = 0;
      MUST(cuMemCreate(&handle, kBytes, &kProperties, 0) == 0);
      const Pointer memory = mapped(handle, flags);
      unsigned value = 1;
      return write ? cuMemcpyHtoD_v2(memory, &value, 4) : cuMemcpyDtoH_v2(&value, memory, 4);
    });
  };
  EXPECT_EQ(use(3, true), 0);
  EXPECT_EQ(use(1, false), 0);
  EXPECT_EQ(use(1, true), 1);
  EXPECT_EQ(use(0, false), 1);
}

TEST(StandInDriver, MistakesAreErrors) {
  EXPECT_EQ(in_process([](const auto&) {
              int count = 0;
              MUST(cuDeviceGetCount(&count) == 3);  // before cuInit()
              setenv("PACELINE_STAND_IN_CARDS", "2", 1);
              MUST(cuInit(0) == 0 && cuDeviceGetCount(&count) == 0 && count == 2);
              unsigned long long handle = 0;
              MUST(cuMemCreate(&handle, kBytes, &kProperties, 0) == 201);  // without a context
              begin("mistakes");
              MUST(cuMemCreate(&handle, kBytes + 1, &kProperties, 0) == 1);
              const Properties elsewhere = {1, 1, {1, 2}, nullptr, {}};
              MUST(cuMemCreate(&handle, kBytes, &elsewhere, 0) == 101);
              MUST(cuMemImportFromShareableHandle(&handle, nullptr, 1) == 1);  // standard input
              const Pointer memory = allocated();
              unsigned value = 0;
              MUST(cuMemcpyHtoD_v2(memory + kBytes - 2, &value, 4) == 1);  // over the end
              MUST(cuMemcpyDtoH_v2(&value, 4096, 4) == 1);
              MUST(cuStreamWriteValue32_v2(nullptr, memory + 2, 1, 0) == 1);
              unsigned* words = shared_words();
              Pointer at = 0;
              MUST(cuMemHostGetDevicePointer_v2(&at, words, 0) == 1);
              at = registered(words);
              MUST(cuMemHostRegister_v2(words, 4096, 0) == 712);
              MUST(cuMemHostUnregister(words) == 0 && cuMemHostUnregister(words) == 713);
              MUST(cuStreamWaitValue32_v2(nullptr, at, 1, 0) == 1);
              void* pinned = nullptr;
              MUST(cuMemHostAlloc(&pinned, 100, 0) == 0 && cuMemFreeHost(pinned) == 0 &&
                   cuMemFreeHost(pinned) == 1);
              MUST(cuMemUnmap(memory, kBytes / 2) == 1 && cuMemAddressFree(memory, kBytes) == 1);
              MUST(cuMemUnmap(memory, kBytes) == 0 && cuMemcpyDtoH_v2(&value, memory, 4) == 1);
              MUST(cuMemAddressFree(memory, kBytes) == 0);
              const char* name = nullptr;
              MUST(cuGetErrorName(2, &name) == 0 && name == std::string("CUDA_ERROR_OUT_OF_MEMORY"));
              const pid_t fork_of_it = fork();
              if (fork_of_it == 0) _exit(cuDeviceGetCount(&count));
              int status = 0;
              waitpid(fork_of_it, &status, 0);
              MUST(WEXITSTATUS(status) == 3);  // the driver does not go over into a fork
              return 0;
            }),
            0);
}

void add_up(void** arguments, unsigned blocks, unsigned threads) {
  const float* from = *static_cast<const float**>(arguments[0]);
  const unsigned count = *static_cast<unsigned*>(arguments[1]);
  float* to = *static_cast<float**>(arguments[2]);
  to[0] = static_cast<float>(blocks * threads);
  to[1] = 0;
  for (unsigned i = 0; i < count; ++i) to[1] += from[i];
}

constexpr unsigned kSizes[] = {8, 4, 8};
constexpr HostKernel kAddUp = {add_up, kSizes, 3};

TEST(StandInDriver, AKernelHasTheArgumentsOfItsLaunch) {
  EXPECT_EQ(in_process([](const auto&) {
              begin("kernel");
              Pointer memory = allocated();
              const float numbers[3] = {1, 2, 4};
              MUST(cuMemcpyHtoD_v2(memory, numbers, sizeof numbers) == 0);
              void *module = nullptr, *function = nullptr, *stream = nullptr;
              MUST(cuModuleLoadData(&module, "any text") == 0);
              MUST(cuModuleGetFunction(&function, module, "no such kernel") == 500);
              MUST(cuModuleGetFunction(&function, module, "add_up") == 0);
              MUST(cuStreamCreate(&stream, 1) == 0);
              unsigned* words = shared_words();
              const Pointer at = registered(words);
              MUST(cuStreamWaitValue32_v2(stream, at, 1, 0) == 0);
              unsigned count = 3;
              Pointer to = memory + 256;
              void* arguments[] = {&memory, &count, &to};
              MUST(cuLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr) == 0);
              count = 1000000000;
              to = 0;
              __atomic_store_n(&words[0], 1u, __ATOMIC_RELEASE);
              MUST(cuStreamSynchronize(stream) == 0);
              float result[2] = {};
              MUST(cuMemcpyDtoH_v2(result, memory + 256, sizeof result) == 0);
              MUST(result[0] == 64 && result[1] == 7);
              MUST(cuLaunchKernel(function, 2, 2, 1, 32, 1, 1, 0, stream, arguments, nullptr) == 1);
              MUST(cuModuleUnload(module) == 0);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace paceline::cuda

// This test's kernels, in place of the library's.
extern "C" __attribute__((visibility("default"))) const HostKernel* paceline_host_kernel(const char* name) {
  return name == std::string("add_up") ? &paceline::cuda::kAddUp : nullptr;
}
