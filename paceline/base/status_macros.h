// Passing an absl::Status up in one line.
#pragma once

#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#define PACELINE_RETURN_IF_ERROR(expression)                                                          \
  do {                                                                                                \
    if (::absl::Status returned_status = (expression); !returned_status.ok()) return returned_status; \
  } while (false)

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)
#define PACELINE_ASSIGN_OR_RETURN(lhs, expression) \
  PACELINE_ASSIGN_OR_RETURN_IMPL(PACELINE_CONCAT(status_or_, __LINE__), lhs, expression)
#define PACELINE_ASSIGN_OR_RETURN_IMPL(temporary, lhs, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return std::move(temporary).status();       \
  lhs = *std::move(temporary)
