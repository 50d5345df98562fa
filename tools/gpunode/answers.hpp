// What the commands answer with --json, field by field. One table (answers_of_*.cpp); `gpunode
// help COMMAND` prints from it, and a process test holds what nodes answer against it.
#pragma once

#include <string>
#include <vector>

namespace gpunode::cli {

// A value of an answer. In a path "a.b" is b in the object a, and "a[].b" is b in each object of the
// list a; what holds it has a field of its own.
struct AnswerField {
  std::string path;  // "jobs[].step"
  // text, texts (a list of them), whole (a number), number (null: not finite), truth, object, list (of
  // objects), texts by name (an object), free (in a format that is described elsewhere).
  std::string type;
  std::string unit;  // "bytes", "s"; empty: none
  std::string when;  // when it is there; empty: wherever what holds it is
  std::string text;  // what it means
};

// The answer of a command, or of one with this flag or word.
struct CommandAnswer {
  std::string command;
  std::string with;  // "--check"; empty: without any
  std::string note;  // of the whole; empty: it is one object, on one line
  std::vector<AnswerField> fields;
};

// Of all commands. Where "ok" is false, only ok and error are sure to be there.
const std::vector<CommandAnswer>& command_answers();

// Of one command; empty where it has no --json.
std::vector<CommandAnswer> answers_of(const std::string& command);

// The table as it is written: one block each, which begins with "= COMMAND [WITH]" or, for one that
// others take over by "+ @NAME", with "= @NAME"; "# " is the note, and a field is
// "path | type unit | when | meaning". "+ path @NAME" puts the block into what stands at the path.
std::vector<CommandAnswer> parse_answers(const std::string& table);

namespace detail {
extern const char* const kNodeAnswers;
extern const char* const kJobAnswers;
extern const char* const kModelAnswers;
}  // namespace detail

}  // namespace gpunode::cli
