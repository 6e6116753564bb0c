#include "paceline/formats/config/file_kind.h"

#include <gtest/gtest.h>

#include "paceline/formats/config/cluster_file.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/sweep.h"

namespace paceline::config {
namespace {

constexpr char kAJob[] = "epochs = 3\n[model]\nname = \"mlp\"\n";
constexpr char kAScenario[] = "iterations = 100\n[[device]]\ncompute_ms = 5\n";
constexpr char kACluster[] = "batch = 64\n[[device]]\nspeed = 2\n";
constexpr char kASweep[] = "job = \"job.toml\"\nout = \"o\"\n[[axis]]\nname = \"seed\"\n";

std::string said(const absl::Status& status) { return std::string(status.message()); }

TEST(FileKind, AnotherKindIsSaid) {
  EXPECT_EQ(said(parse_job(kAScenario, "f.toml").status()),
            "f.toml: this is a scenario; `paceline simulate` takes it");
  EXPECT_EQ(said(parse_job(kACluster, "f.toml").status()),
            "f.toml: this is a cluster; `paceline plan` takes it");
  EXPECT_EQ(said(parse_job(kASweep, "f.toml").status()),
            "f.toml: this is a sweep; `paceline sweep` takes it");
  EXPECT_EQ(said(parse_sweep(kAJob, "f.toml").status()), "f.toml: this is a job; `paceline train` takes it");
  EXPECT_EQ(said(parse_cluster(kAJob, "f.toml").status()),
            "f.toml: this is a job; `paceline train` takes it");
}

// A job with a wrong key of a scenario is a job all the same.
TEST(FileKind, AFileThatMayBeTheRightKindIsReadAsSuch) {
  EXPECT_EQ(said(parse_job("iterations = 5\nepochs = 3\n", "f.toml").status()).find("this is"),
            std::string::npos);
  EXPECT_EQ(said(parse_job("epoch = 3\n", "f.toml").status()).find("this is"), std::string::npos);
}

}  // namespace
}  // namespace paceline::config
