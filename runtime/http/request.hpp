// A request over HTTP as whoever answers it sees it. Plain values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace gpunode::http {

struct Request {
  std::string method,
      path;  // "GET", "/metrics", without escapes; what stood behind '?' is in `query`
  std::multimap<std::string, std::string> query = {};
  std::map<std::string, std::string> headers = {};  // names in small letters; of several the last
  std::string body = {};
  std::string client = {};  // its address
  // Whether somebody is still there to read the answer; false too once the server closes.
  std::function<bool()> is_open = {};

  // Empty where there is none.
  std::string_view header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : found->second;
  }
};

}  // namespace gpunode::http
