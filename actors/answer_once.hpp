// An answer that is told exactly once, whatever becomes of who should tell it. Questions travel
// through mailboxes, and an actor that ends throws away what it has not read; with the last copy of
// the question goes the fallback, so that nobody waits for ever. Any thread; one allocation.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

namespace gpunode {

template <class Answer>
class AnswerOnce {
 public:
  // `tell` must be callable from any thread and may not throw.
  AnswerOnce(std::function<void(Answer)> tell, Answer fallback)
      : state_(std::make_shared<State>(std::move(tell), std::move(fallback))) {}

  // The first answer counts; copies answer the same question.
  void operator()(Answer answer) const {
    if (!state_->told.exchange(true)) state_->tell(std::move(answer));
  }

 private:
  struct State {
    State(std::function<void(Answer)> teller, Answer otherwise)
        : tell(std::move(teller)), fallback(std::move(otherwise)) {}
    ~State() {
      if (!told.exchange(true)) tell(std::move(fallback));
    }
    std::function<void(Answer)> tell;
    Answer fallback;
    std::atomic<bool> told{false};
  };
  std::shared_ptr<State> state_;
};

}  // namespace gpunode
