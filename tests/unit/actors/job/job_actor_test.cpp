// The job actor between its mailboxes: a job of one member whose trainer and checkpoint writer are
// the test, so that both answer when it wants.
#include "tests/unit/actors/job/job_actor_fixture.hpp"

namespace gpunode::jobs {
namespace {

TEST_F(JobActor, leaves_checkpoints_out_that_the_disk_has_no_time_for_and_says_so_once) {
  start(20, 1);
  run_to(9);
  EXPECT_EQ(read_states(), (Steps{1, 2, 3, 4})) << "a few wait for the disk, not all";
  EXPECT_EQ(events_with("no checkpoint of step"), 1u);
  EXPECT_EQ(events_with("no checkpoint of step 5"), 1u);
  write_one();
  run_to(12);
  EXPECT_EQ(read_states(), (Steps{10}));
  EXPECT_EQ(events_with("no checkpoint of step"), 1u) << "the disk has not kept up since";
  for (int i = 0; i < 4; ++i) write_one();
  run_to(18);
  EXPECT_EQ(read_states(), (Steps{13, 14, 15, 16}));
  EXPECT_EQ(events_with("no checkpoint of step 17"), 1u) << "it had kept up";
  run_to(20);
  EXPECT_EQ(read_states(), (Steps{20})) << "the last one is written always";
}

TEST_F(JobActor, keeps_one_large_state_for_the_disk_and_no_more) {
  start(10, 1, (48u << 20) / (3 * sizeof(float)) + 1);
  run_to(3);
  EXPECT_EQ(read_states(), (Steps{1}));
  run_to(4);
  EXPECT_EQ(read_states(), Steps{}) << "it is with the writer";
  write_one();
  run_to(5);
  EXPECT_EQ(read_states(), (Steps{5}));
}

TEST_F(JobActor, says_that_it_is_stopped_when_the_checkpoint_is_on_the_disk) {
  start(10, 0);
  run_to(3);
  auto stopped = order("job.stop");
  compute(4);
  wait_for(JobPhase::stopped);
  ask("job.progress");
  EXPECT_EQ(stopped.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "the state after the step is not even there";
  apply(4);
  caf::anon_send(job_, Tick{});
  EXPECT_EQ(read_states(), (Steps{4}));
  caf::anon_send(job_, Tick{});
  ask("job.progress");
  EXPECT_EQ(stopped.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  write_one();
  const nlohmann::json answer = told(stopped);
  EXPECT_EQ(answer["ok"], true) << answer;
  EXPECT_EQ(answer["checkpoint_step"], 4) << answer;
}

TEST_F(JobActor, says_why_a_stop_has_left_no_checkpoint) {
  start(10, 0);
  run_to(3);
  auto stopped = order("job.stop");
  compute(4);
  apply(4);
  wait_for(JobPhase::stopped);
  EXPECT_EQ(read_states(), (Steps{4}));
  write_one(Error{ErrorCode::permission_denied, "it is not ours"});
  const nlohmann::json answer = told(stopped);
  EXPECT_EQ(answer["ok"], false) << answer;
  EXPECT_NE(answer.dump().find("it is not ours"), std::string::npos) << answer;
}

TEST_F(JobActor, does_not_end_before_its_result_is_on_the_disk) {
  const Error full{ErrorCode::disk_full, "no space"};
  start(2, 1);
  run_to(2);
  EXPECT_EQ(read_states(), (Steps{1, 2}));
  write_one();
  next<Evaluate>(trainer_);
  caf::anon_send(job_, Evaluated{});
  write_one(full);
  EXPECT_EQ(ask("job.progress")["phase"], "saving");
  EXPECT_NE(ask("job.progress")["reason"].get<std::string>().find("only in this node's memory"),
            std::string::npos);
  EXPECT_EQ(read_states(), Steps{}) << "not at once";
  for (const auto& path : {Result<std::string>(full), Result<std::string>("/there")}) {
    time_.jump(std::chrono::seconds(4));
    caf::anon_send(job_, Tick{});
    EXPECT_EQ(read_states(), (Steps{2}));
    write_one(path);
    ask("job.progress");  // it is told of that before the clock jumps again
  }
  wait_for(JobPhase::finished);
  EXPECT_EQ(events_with("no space"), 1u) << "it is said once";
  EXPECT_EQ(ask("job.show")["checkpoint"]["step"], 2);
}

TEST_F(JobActor, goes_on_when_its_disk_takes_checkpoints_again) {
  start(3, 1);
  run_to(1);
  EXPECT_EQ(read_states(), (Steps{1}));
  write_one(Error{ErrorCode::disk_full, "no space"});
  run_to(2);
  EXPECT_EQ(read_states(), (Steps{2}));
  write_one();
  EXPECT_EQ(events_with("takes checkpoints again"), 1u);
  run_to(3);
  EXPECT_EQ(read_states(), (Steps{3}));
  next<Evaluate>(trainer_);
  caf::anon_send(job_, Evaluated{});
  write_one();
  wait_for(JobPhase::finished);
}

TEST_F(JobActor, goes_back_to_an_older_checkpoint_only_where_the_state_is_lost) {
  start(10, 0);
  run_to(3);
  auto ordered = order("job.resume", R"({"from":2})");
  const nlohmann::json answer = told(ordered);
  EXPECT_EQ(answer["ok"], false) << answer;
  EXPECT_NE(answer.dump().find("holds the state after step 3"), std::string::npos) << answer;
}

TEST_F(JobActor, is_not_recovered_by_force_while_it_runs_and_all_that_vote_answer) {
  start(10, 0);
  run_to(3);
  auto ordered = order("job.recover");
  const nlohmann::json answer = told(ordered);
  EXPECT_EQ(answer["ok"], false) << answer;
  EXPECT_NE(answer.dump().find("nothing to recover"), std::string::npos) << answer;
}

TEST(Orders, a_step_to_go_back_to_is_an_argument_of_resume_alone) {
  EXPECT_EQ(resumed_from("job.resume", {{"from", 20}}), 20u);
  EXPECT_EQ(resumed_from("job.resume", {{"from", 0}}), 0u);
  EXPECT_FALSE(resumed_from("job.resume", {{"job", "small"}}));
  EXPECT_FALSE(resumed_from("job.stop", {{"from", 20}}));
}

TEST_F(JobActor, that_fails_lets_its_trainer_and_its_checkpoint_writer_go) {
  start(10, 0);
  run_to(1);
  caf::anon_send(job_, TrainerFailed{{ErrorCode::internal, "planned"}});
  next<Shutdown>(trainer_);
  next<Shutdown>(writer_);
}

TEST_F(JobActor, that_failed_is_told_with_the_step_that_it_had_come_to) {
  start(10, 0);
  run_to(4);
  caf::anon_send(job_, TrainerFailed{{ErrorCode::internal, "no more"}});
  for (int i = 0; i < 3; ++i) caf::anon_send(job_, Tick{});
  EXPECT_EQ(ask("job.show")["step"], 4);
  const auto told = all<JobProgress>(supervisor_);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().phase, JobPhase::failed);
  EXPECT_EQ(told.back().step, 4u);
  EXPECT_GT(told.back().view_id, 0u);
}

TEST_F(JobActor, begins_when_its_newest_intact_checkpoint_is_found_and_names_the_damaged_ones) {
  start(10, 0, kSmall, true);
  const DamagedCheckpoint bad{{{}, 6}, "/there", "a bit is flipped"};
  EXPECT_EQ(ask("job.progress")["phase"], "preparing");
  find({checkpoint(4), {bad}, {bad}, std::nullopt});
  EXPECT_EQ(events_with("a bit is flipped"), 1u);
  EXPECT_EQ(events_with("newest checkpoint here is of step 4"), 1u);
  const nlohmann::json shown = ask("job.show");
  ASSERT_EQ(shown["damaged_checkpoints"].size(), 1u) << shown;
  EXPECT_EQ(shown["damaged_checkpoints"][0]["step"], 6);
  EXPECT_EQ(shown["damaged_checkpoints"][0]["path"], "/there");
  EXPECT_EQ(shown["damaged_checkpoints"][0]["reason"], "a bit is flipped");
  std::uint64_t counted = 0;
  for (const JobProgress& one : all<JobProgress>(supervisor_)) counted = one.damaged_checkpoints;
  EXPECT_EQ(counted, 1u);
}

TEST_F(JobActor, a_checkpoint_that_is_damaged_as_it_is_restored_makes_way_for_an_older_one) {
  come_back();
  const DamagedCheckpoint bad{checkpoint(4).name(), "/there", "a bit is flipped"};
  caf::anon_send(job_, CheckpointRead{4, 0, Error{ErrorCode::corrupted, "a bit is flipped"}});
  caf::anon_send(job_, CheckpointsFound{checkpoint(2), {bad}, {bad}, std::nullopt});
  EXPECT_EQ(next<ReadCheckpoint>(writer_).step, 2u);
  caf::anon_send(job_, CheckpointRead{2, 0, SharedBytes::from(Bytes(8))});
  EXPECT_EQ(next<job::InstallState>(trainer_).step, 2u);
  caf::anon_send(job_, StateInstalled{2});
  done_ = 2;
  run_to(3);
  EXPECT_EQ(events_with("failed"), 0u);
  EXPECT_EQ(events_with("checkpoint of step 4 on this node is damaged"), 2u)
      << "why it is set aside, and why the view ends";
}

TEST_F(JobActor, one_that_was_the_last_is_named_when_the_job_begins_anew) {
  come_back();
  const DamagedCheckpoint bad{checkpoint(4).name(), "/there", "a bit is flipped"};
  caf::anon_send(job_, CheckpointRead{4, 0, Error{ErrorCode::corrupted, "a bit is flipped"}});
  caf::anon_send(job_, CheckpointsFound{{}, {bad}, {bad}, std::nullopt});
  compute(1);  // the trainer has begun with the initial state, and got no other
  EXPECT_EQ(events_with("begins anew from step 0"), 1u);
}

TEST_F(JobActor, says_that_checkpoints_which_it_held_are_gone) {
  start(4, 2);
  run_to(2);
  EXPECT_EQ(read_states(), (Steps{2}));
  write_one();
  caf::anon_send(job_, Tick{});
  EXPECT_EQ(events_with("checkpoint of step 2 is durable"), 1u);
  caf::anon_send_exit(job_, caf::exit_reason::kill);
  all<job::Compute>(trainer_);
  start(4, 2, kSmall, true);
  find({{}, {}, {}, std::nullopt});
  EXPECT_EQ(events_with("checkpoints up to step 2 that this node held are gone"), 1u);
}

TEST_F(JobActor, leaves_the_view_when_its_disk_does_not_give_the_state_that_is_waited_for) {
  come_back();
  time_.jump(std::chrono::seconds(61));
  wait_for(JobPhase::failed);
  const nlohmann::json shown = ask("job.show");
  EXPECT_NE(shown["reason"].get<std::string>().find("that of step 4 is read since 61 s"),
            std::string::npos)
      << shown["reason"];
}

TEST_F(JobActor, says_that_the_disk_does_not_answer_and_trains_on) {
  start(10, 2);
  run_to(2);
  EXPECT_EQ(read_states(), (Steps{2}));
  ask("job.log");  // it is with the writer
  time_.jump(std::chrono::seconds(59));
  caf::anon_send(job_, Tick{});
  EXPECT_FALSE(ask("job.show").contains("late_disk"));
  time_.jump(std::chrono::seconds(3));
  caf::anon_send(job_, Tick{});
  EXPECT_EQ(ask("job.show")["late_disk"]["step"], 2);
  EXPECT_EQ(events_with("does not answer"), 1u);
  EXPECT_EQ(events_with("is on this node's disk"), 0u);
  run_to(4);
  EXPECT_EQ(events_with("does not answer"), 1u) << "it is said once";
  write_one();
  caf::anon_send(job_, Tick{});
  EXPECT_EQ(events_with("disk of the checkpoints answers"), 1u);
  EXPECT_EQ(events_with("checkpoint of step 2 is on this node's disk"), 1u);
  EXPECT_EQ(events_with("checkpoint of step 2 is durable: on this node alone"), 1u);
}

TEST_F(JobActor, whose_only_trainer_hangs_says_so_and_what_is_in_memory_alone) {
  start(10, 0);
  run_to(4);
  nlohmann::json shown;
  for (int tick = 0; tick < 100 && !shown.contains("hang"); ++tick) {
    time_.jump(std::chrono::seconds(1));  // the watchdog counts no more of one tick
    caf::anon_send(job_, Tick{});
    shown = ask("job.show");
  }
  ASSERT_TRUE(shown.contains("hang")) << shown;
  EXPECT_EQ(shown["hang"]["work"], "compute");
  EXPECT_EQ(shown["phase"], "running");
  EXPECT_EQ(shown["unsaved_steps"], 4);
  EXPECT_NE(shown["reason"].get<std::string>().find("has not answered"), std::string::npos)
      << shown;
  auto stopped = order("job.stop");
  ask("job.progress");
  time_.jump(std::chrono::seconds(31));
  caf::anon_send(job_, Tick{});
  const nlohmann::json answer = told(stopped);
  EXPECT_EQ(answer["ok"], false) << answer;
  EXPECT_NE(answer["error"]["detail"].get<std::string>().find("has not answered"),
            std::string::npos)
      << answer;
}

TEST_F(JobActor, tells_figures_that_are_no_numbers_once_for_a_run_of_steps) {
  start(10, 0);
  const auto apply_odd = [&](bool skipped) {
    compute(done_ + 1);
    Applied applied;
    applied.step = ++done_;
    applied.skipped = skipped;
    applied.loss = std::numeric_limits<double>::quiet_NaN();
    caf::anon_send(job_, applied);
  };
  for (int i = 0; i < 3; ++i) apply_odd(true);
  EXPECT_EQ(events_with("skipped"), 1u);
  EXPECT_EQ(events_with("steps 1 to 3 were skipped"), 1u);
  EXPECT_EQ(ask("job.show")["skipped_steps"]["in_a_row"], 3);
  for (int i = 0; i < 3; ++i) apply_odd(false);
  EXPECT_EQ(events_with("the loss of step"), 1u);
  EXPECT_EQ(ask("job.show")["skipped_steps"]["in_a_row"], 0);
}

TEST_F(JobActor,
       knows_after_a_restart_what_it_knew_before_and_counts_from_the_step_it_goes_on_from) {
  start(10, 0);
  run_to(6);
  time_.jump(std::chrono::seconds(2));
  caf::anon_send(job_, Tick{});
  const auto before = ask("job.log");
  caf::anon_send(job_, Shutdown{});
  next<Shutdown>(trainer_);
  start(10, 0, kSmall, true);
  const auto early = ask("job.progress");
  EXPECT_EQ(early["step"], 6) << "before its checkpoints are looked through";
  EXPECT_EQ(early["as_of"]["text"], "before this node was started again");
  find({checkpoint(4), {}, {}, std::nullopt});
  ASSERT_EQ(next<ReadCheckpoint>(writer_).step, 4u);
  const auto after = ask("job.log");
  EXPECT_EQ(after["step"], 4) << "two steps are undone";
  ASSERT_EQ(after["commits"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(after["commits"][i], before["commits"][i]);
  for (std::size_t i = 0; i < before["events"].size(); ++i)
    EXPECT_EQ(after["events"][i], before["events"][i]);
  EXPECT_EQ(events_with("taken up again"), 1u);
  const auto shown = ask("job.show");
  ASSERT_EQ(shown["computed"].size(), 1u);
  EXPECT_EQ(shown["computed"][0]["slices"], 4);
  EXPECT_EQ(shown["witnessed_from_step"], 1);
}

TEST_F(JobActor, warns_once_that_the_data_gives_something_else_than_was_fed) {
  start(10, 0);
  run_to(1);
  for (int i = 0; i < 3; ++i) caf::anon_send(job_, ProofDiffers{1});
  EXPECT_EQ(events_with("warning: the steps up to 1 were not fed what the data"), 1u);
}

}  // namespace
}  // namespace gpunode::jobs
