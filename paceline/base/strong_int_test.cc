// Identifiers that cannot be mixed up: most of this is checked by the compiler.
#include "paceline/base/strong_int.h"

#include <type_traits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/ids.h"

namespace paceline {
namespace {

static_assert(!std::is_convertible_v<std::int64_t, Version>, "a bare number is not a version");
static_assert(!std::is_convertible_v<Version, std::int64_t>);
static_assert(!std::is_constructible_v<Version, Clock>, "a clock is not a version");
static_assert(!std::is_assignable_v<Version&, Clock>);
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
static_assert(Comparable<Clock, Clock> && !Comparable<Clock, Version>);
template <class A, class B>
concept Subtractable = requires(A a, B b) {
  a - b;
};
static_assert(Subtractable<Clock, Clock> && !Subtractable<Clock, Version>);
static_assert(sizeof(ReplicaId) == 4 && sizeof(Version) == 8);
static_assert(std::is_trivially_copyable_v<Version>);

TEST(StrongInt, CountsFromZero) {
  EXPECT_EQ(Version().value(), 0);
  EXPECT_EQ(Version(4).next(), Version(5));
}

TEST(StrongInt, IsOrderedAndHasDistances) {
  EXPECT_LT(Clock(2), Clock(3));
  EXPECT_GE(Clock(3), Clock(3));
  EXPECT_NE(Clock(2), Clock(3));
  EXPECT_EQ(Clock(2) - Clock(5), -3);
}

TEST(StrongInt, IsFormattedAsItsNumber) {
  EXPECT_EQ(fmt::format("{} {:>4}", ReplicaId(7), Version(12)), "7   12");
}

}  // namespace
}  // namespace paceline
