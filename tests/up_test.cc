// `paceline up`, with a stand-in for ssh: it runs each command on this machine, in a home folder of that
// host.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Up : public testing::Test {
 protected:
  Up() {
    const fs::path ssh = folder_ / "bin" / "ssh";
    fs::create_directory(folder_ / "bin");
    write_text(ssh,
               "#!/bin/sh\n"
               "while [ \"$1\" = -T ] || [ \"$1\" = -o ]; do [ \"$1\" = -o ] && shift; shift; done\n"
               "[ $# = 2 ] || exit 254\n"
               "[ $1 != gone ] || { echo 'ssh: connect to host gone: No route to host' >&2; exit 255; }\n"
               "HOME=" +
                   (folder_ / "home").string() +
                   "/$1\n"
                   "export HOME\n"
                   "mkdir -p $HOME && cd $HOME && exec sh -c \"$2\"\n");
    fs::permissions(ssh, fs::perms::owner_all);
    setenv("PATH", ((folder_ / "bin").string() + ":" + getenv("PATH")).c_str(), 1);
    write_text(folder_ / "hosts.txt", "127.0.0.1  # the first\n\nlocalhost\n");
  }

  // Its certificates lie beside it, as it says.
  std::string job(const std::string& epochs) const {
    EXPECT_EQ(run({"certs", (folder_ / "certs").string(), "--job", "small"}).status, 0);
    const fs::path file = small_job(folder_.path(), "epochs = " + epochs + "\n");
    write_text(file, read_text(file) + fmt::format("[network]\nlisten = \"127.0.0.1:{}\"\ncerts = \"{}\"\n"
                                                   "[[device]]\ncount = 2\n",
                                                   free_port(), (folder_ / "certs" / "small").string()));
    return file.string();
  }
  std::vector<std::string> words(const std::string& job) const {
    return {"up", (folder_ / "hosts.txt").string(), job, "--program", program_};
  }

  const TempFolder folder_;
  const std::string program_ = [] {
    const std::string line = run_in_shell("echo $PACELINE").output;
    return line.substr(0, line.find('\n'));
  }();
};

// The number of hosts is that of the file of hosts, although a device names its host.
TEST_F(Up, ADeviceMayNameItsHost) {
  const std::string file = job("0.1");
  write_text(file, read_text(file) + "[[device]]\nhost = 1\n");
  const Ended ended = run(words(file));
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("120 of 120 samples")) << ended.output;
}

TEST_F(Up, RunsAJobOnAllHosts) {
  const Ended ended = run(words(job("0.1")));
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("120 of 120 samples")) << ended.output;
  for (const char* line : {"looking for paceline on 2 hosts\n", "copying the job to paceline/small\n",
                           "examining the hosts\n", "starting; Ctrl-C stops"})
    EXPECT_THAT(ended.errors, HasSubstr(line));
  for (const char* host : {"127.0.0.1", "localhost"}) {
    EXPECT_TRUE(fs::exists(folder_ / "home" / host / "paceline/small/certs/token")) << host;
  }
}

TEST_F(Up, CtrlCStopsTheRunWithACheckpoint) {
  std::vector<std::string> with_epochs = words(job("2000"));
  with_epochs.emplace_back("--no-doctor");
  Program up(with_epochs);
  ASSERT_TRUE(up.until_said("samples/s"));
  up.signal(SIGINT);
  const Ended ended = up.wait();
  EXPECT_EQ(ended.status, 128 + SIGINT) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("report: ")) << ended.output;
  const fs::path made = only_run(folder_ / "runs");
  EXPECT_FALSE(fs::is_empty(made / "checkpoints"));

  const std::string hint = "to go on from here, write this command again with --resume " + made.string();
  EXPECT_THAT(ended.errors, HasSubstr(hint + "\n"));
  with_epochs.insert(with_epochs.end(), {"--resume", made.string()});
  Program again(with_epochs);
  ASSERT_TRUE(again.until_said("samples/s"));
  again.signal(SIGINT);
  const Ended twice = again.wait();
  EXPECT_EQ(twice.status, 128 + SIGINT) << twice.errors;
  EXPECT_THAT(twice.errors, HasSubstr(hint + "\n"));
  EXPECT_EQ(only_run(folder_ / "runs"), made);
  EXPECT_NE(read_text(made / "summary.json").find("\"attempts\": 2,"), std::string::npos);
}

// The first host would wait for it.
TEST_F(Up, AHostWhoseNodeFailsEndsTheStart) {
  const std::string file = job("2000");
  const fs::path fails = folder_ / "fails";
  write_text(fails,
             "#!/bin/sh\ncase \"$*\" in *'--rank 1 '*) echo 'train.py: no such file' >&2; exit 2;; esac\n"
             "exec " +
                 program_ + " \"$@\"\n");
  fs::permissions(fails, fs::perms::owner_all);
  const Ended ended =
      run({"up", (folder_ / "hosts.txt").string(), file, "--program", fails.string(), "--no-doctor"});
  EXPECT_EQ(ended.status, 2) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("localhost: paceline node failed: train.py: no such file"))
      << ended.errors;
  const Ended examined = run({"up", (folder_ / "hosts.txt").string(), file, "--program", fails.string()});
  EXPECT_EQ(examined.status, 2) << examined.errors;
  EXPECT_THAT(examined.errors, HasSubstr("localhost: paceline doctor failed: train.py: no such file"));
}

TEST_F(Up, AHostThatCannotServeIsOneLine) {
  const std::string file = job("0.1");
  write_text(folder_ / "old", "#!/bin/sh\necho paceline 0.0.1\n");
  fs::permissions(folder_ / "old", fs::perms::owner_all);
  const Ended old =
      run({"up", (folder_ / "hosts.txt").string(), file, "--program", (folder_ / "old").string()});
  EXPECT_EQ(old.status, 2);
  EXPECT_THAT(old.errors, HasSubstr("127.0.0.1 has paceline 0.0.1, and this host paceline "));
  const Ended none = run({"up", (folder_ / "hosts.txt").string(), file, "--program", "/no/such/paceline"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.errors, HasSubstr("127.0.0.1: there is no /no/such/paceline that runs"));
  write_text(folder_ / "hosts.txt", "127.0.0.1\ngone\n");
  const Ended gone = run(words(file));
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.errors,
              HasSubstr("gone: paceline --version is not possible over ssh: ssh: connect to host"));
  write_text(folder_ / "hosts.txt", "-oProxyCommand=touch\n");
  const Ended option = run(words(file));
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.errors, HasSubstr("hosts.txt:1: '-oProxyCommand=touch' is not the name of a host"));
}

}  // namespace
}  // namespace paceline::tests
