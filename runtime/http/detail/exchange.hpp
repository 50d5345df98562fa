// One request's answer on its way out: whole with its length, or piece by piece in chunks. Called by the
// thread that answers.
#pragma once

#include "runtime/http/detail/connection.hpp"
#include "runtime/http/server.hpp"

namespace gpunode::http::detail {

struct AnswerForm {
  bool without_body = false;  // to HEAD
  bool in_chunks = true;      // HTTP/1.0 has none
  bool goes_on = false;       // another request may come on the connection
};

// As the request wants it that is here, or as much of it as is known; without another one behind it.
AnswerForm form_of(const RequestReader& reader);

// Until when all of it is to be out, and how long each piece may take.
struct AnswerTime {
  SteadyTime until{};
  Duration piece{};
};

// False: not all of it was taken; the connection is of no use any more.
bool write_answer(Connection& to, const Answer& answer, const AnswerForm& form,
                  const AnswerTime& time);

}  // namespace gpunode::http::detail
