// Between the wire's messages and our types. What comes from the wire is checked here, once.
#pragma once

#include <absl/status/statusor.h>

#include "paceline/base/data_order.h"
#include "paceline/base/lease.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::wire {

// So much of a file goes in one message.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

Layout to_wire(const ps::Layout& layout);
// Errors: InvalidArgument for shapes that are not positive or do not fit memory.
absl::StatusOr<ps::Layout> from_wire(const Layout& message);
// The part of a model that a server keeps, which may be nothing.
absl::StatusOr<ps::Layout> part_from_wire(const Layout& message);

google::protobuf::RepeatedPtrField<DataPart> to_wire(const DataOrder& order);
// Errors: InvalidArgument.
absl::StatusOr<DataOrder> from_wire(const google::protobuf::RepeatedPtrField<DataPart>& message);

Lease to_wire(const paceline::Lease& lease);
// Errors: InvalidArgument for an empty or negative range.
absl::StatusOr<paceline::Lease> from_wire(const Lease& message);

// How far along the direction its replica is to look ahead under this optimizer. Errors: InvalidArgument for
// numbers that are none, or below 0.
absl::StatusOr<float> look_ahead_reach(const WorkerRelease& message, const ps::OptimizerConfig& optimizer);

}  // namespace paceline::wire
