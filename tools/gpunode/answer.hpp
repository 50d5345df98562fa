// How commands speak with a running node and with the person in front: one question over the
// node's socket, one way to print an error.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "actors/json_answer.hpp"
#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

struct Answer {
  nlohmann::json body;  // of a success
  std::optional<Error> error;
  int exit_code = kOk;

  explicit operator bool() const { return !error; }
};

// Asks the node of the state directory. kNoNode when none runs there, kFailed when it refuses.
Answer ask_node(const Invocation& invocation, const std::string& command,
                const nlohmann::json& arguments = nlohmann::json::object(),
                std::chrono::milliseconds timeout = std::chrono::seconds(30));

// Says what is wrong, as text on standard error or as JSON on standard output; returns exit_code.
int fail(const Invocation& invocation, const Error& error, int exit_code = kFailed);
int fail(const Invocation& invocation, const Answer& answer);
void warn(const std::string& text);

// What an answer holds under a key, as it is shown: "?" for a text that is missing, 0 for a number.
std::string word(const nlohmann::json& object, const char* key);
std::string number(const nlohmann::json& object, const char* key);
nlohmann::json list(const nlohmann::json& object, const char* key);
nlohmann::json object(const nlohmann::json& object, const char* key);
// The texts of a list, with something between them.
std::string joined(const nlohmann::json& list, const std::string& between = ", ");

// An answer as a person may see it: each text and each key in it harmless (harmless_text.hpp), as
// peers wrote some of them.
nlohmann::json harmless_answer(const nlohmann::json& answer);

// What the node answered, as JSON or as text_of() tells it to a person; or why it did not. text_of()
// gets a harmless answer.
int tell(const Invocation& invocation, const Answer& answer,
         const std::function<std::string(const nlohmann::json&)>& text_of);

// The same where the answer is one text of many lines, under that key.
int tell_lines(const Invocation& invocation, const Answer& answer, const char* key);

void print(const std::string& text);     // on standard output, flushed
void print_json(nlohmann::json fields);  // {"ok":true, ...} and a line end
// The same where something is wrong with what the fields tell: {"ok":false, "error":{...}, ...}.
void print_json(nlohmann::json fields, const std::optional<Error>& wrong);

}  // namespace gpunode::cli
