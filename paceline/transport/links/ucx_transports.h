// The transports that UCX finds on this host. For people.
#pragma once

#include <string>
#include <vector>

namespace paceline::links {

// "tcp on eth0", "rc_mlx5 on mlx5_0:1"; those within a host are left out. Empty if UCX finds none.
std::vector<std::string> ucx_transports();

}  // namespace paceline::links
