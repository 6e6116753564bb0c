#include "paceline/tools/cli/examples.h"

#include <map>

#include "paceline/base/check.h"

namespace paceline::cli {

std::vector<std::string> examples_of(const std::string& command) {
  static const std::map<std::string, std::vector<std::string>> all{
      {"certs", {"paceline certs certs --job digits"}},
      {"compare",
       {"paceline compare job.toml --policies bsp,asp,ssp:3",
        "paceline compare job.toml --policies bsp,cgp --seeds 3 --virtual",
        "paceline compare --resume runs/job-20260101T120000Z-compare"}},
      {"coordinator", {"paceline coordinator runs/job --listen 127.0.0.1:7461"}},
      {"data", {"paceline data digits data/digits", "paceline data mnist data/mnist --from downloads"}},
      {"doctor",
       {"paceline doctor", "paceline doctor job.toml --rank 0 --hosts 2 --coordinator 10.0.0.1:7461"}},
      {"evaluator", {"paceline evaluator --coordinator 10.0.0.1:7461 --certs certs/job"}},
      {"export",
       {"paceline export runs/job model.safetensors", "paceline export runs/job --trace trace.json",
        "paceline export runs/job --tensorboard events --follow"}},
      {"generate", {"paceline generate manual"}},
      {"models", {"paceline models sizes job.toml answer"}},
      {"node",
       {"paceline node job.toml --rank 0 --hosts 2 --coordinator 10.0.0.1:7461",
        "paceline node job.toml --rank 1 --hosts 2 --coordinator 10.0.0.1:7461"}},
      {"plan",
       {"paceline plan cluster.toml", "paceline plan cluster.toml --json plan.json",
        "paceline plan cluster.toml --profile profile.toml",
        "paceline plan train.py --cluster cluster.toml"}},
      {"profile",
       {"paceline profile train.py", "paceline profile train.py --micro-batch 16 -o profile.toml"}},
      {"replay", {"paceline replay runs/job"}},
      {"report", {"paceline report runs/job", "paceline report runs/job --time"}},
      {"run",
       {"paceline run train.py --devices 4 --policy ssp:3",
        "paceline run train.py --set epochs=2 -- --learning-rate 0.1"}},
      {"server", {"paceline server --shard 0 --coordinator 10.0.0.1:7461 --certs certs/job"}},
      {"simulate",
       {"paceline simulate scenario.toml --policies bsp,asp,cgp",
        "paceline simulate scenario.toml --seeds 20", "paceline simulate scenario.toml --json -"}},
      {"sweep", {"paceline sweep sweep.toml --jobs 2", "paceline sweep sweep.toml --markdown"}},
      {"top", {"paceline top runs", "paceline top runs/job --once"}},
      {"train",
       {"paceline train", "paceline train job.toml --set sync.policy=ssp:3 --set epochs=2",
        "paceline train - --virtual < job.toml", "paceline train --resume runs/job"}},
      {"ui", {"paceline ui runs", "paceline ui runs --listen 127.0.0.1:8000"}},
      {"up",
       {"paceline up hosts.txt job.toml", "paceline up hosts.txt job.toml --copy-programs --set epochs=2"}},
      {"worker", {"paceline worker --name w0 --coordinator 10.0.0.1:7461 --certs certs/job"}},
      {"zipline", {"paceline zipline times.txt --method zip-line-scan"}}};
  const auto found = all.find(command);
  PACELINE_CHECK(found != all.end(), "no examples of {}", command);
  return found->second;
}

void add_examples(CLI::App& command) {
  std::string text = command.get_footer();
  text += text.empty() ? "Examples:" : "\n\nExamples:";
  for (const std::string& line : examples_of(command.get_name())) text += "\n  " + line;
  command.footer(text);
}

}  // namespace paceline::cli
