// A system call that the system no longer does, as in a sandbox or before a version of Linux.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace paceline::testing {

// From now on each call `number` of this process and its children is answered with `error` and not done; 0: it is said to be
// done. With `third`, only calls with that third argument. For good: it belongs in a forked process. False if such a filter
// cannot be had here.
inline bool answer_call(std::uint32_t number, std::uint32_t error, std::optional<std::uint32_t> third = {}) {
  const std::uint32_t answer = SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, third.value_or(0), 0, static_cast<std::uint8_t>(third ? 1 : 0)),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace paceline::testing
