// Tables of what nodes answer, which several commands show.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace gpunode::cli {

std::string nodes_text(const nlohmann::json& answer);   // of `nodes`
std::string jobs_text(const nlohmann::json& answer);    // of `jobs`
std::string models_text(const nlohmann::json& answer);  // of `models`

}  // namespace gpunode::cli
