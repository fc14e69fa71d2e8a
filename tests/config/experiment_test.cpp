#include "config/experiment.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/files.h"
#include "core/scratch.h"
#include "train/schedule.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Experiment read(const std::string& text) { return read_experiment(parse_json(text, "rope.json"), "rope"); }

/// The message with which the document is refused, or "" when it is accepted.
std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// A document with these members of the model section besides the scheme.
std::string model(const std::string& members, const std::string& scheme = "\"none\"") {
  return "{\"model\": {" + members + (members.empty() ? "" : ", ") + "\"position\": " + scheme + "}}";
}

std::string train(const std::string& members) { return "{\"model\": {\"position\": \"none\"}, \"train\": {" + members + "}}"; }

TEST(Experiment, WhatIsNotSaidIsTheDefaultWrittenOut) {
  const Experiment e = read(model("", "\"rope\""));
  EXPECT_EQ(
      dump_json_line(resolved_json(e)),
      "{\"name\":\"rope\",\"seed\":1,\"data\":{\"kind\":\"text\",\"corpus\":\"austen\",\"path\":null,\"tokenizer\":\"byte\","
      "\"task\":null,\"train_lengths\":null,\"test_lengths\":null,\"examples\":null,\"depths\":null},"
      "\"model\":{\"kind\":\"transformer\",\"layers\":4,\"d_model\":128,\"heads\":4,\"kv_heads\":4,\"head_dim\":32,\"d_ff\":512,"
      "\"norm\":\"rmsnorm\",\"norm_eps\":1e-05,\"activation\":\"gelu\",\"bias\":false,\"qk_norm\":false,\"dropout\":0.0,\"tie_"
      "embeddings\":true,\"kernel\":3,\"dilations\":null,"
      "\"position\":{\"scheme\":\"rope\",\"base\":10000.0,\"partial\":1.0,\"proportional\":1.0,\"layout\":\"half_split\","
      "\"learned\":false,"
      "\"window\":null,\"chunk\":null,\"temperature\":{\"method\":\"none\",\"form\":\"inference\",\"init\":null,\"floor\":null,"
      "\"scale\":0.1},"
      "\"sinks\":{\"type\":\"none\",\"keep_first\":0},\"sampler\":{\"method\":\"arange\",\"max\":null,\"draws\":4},\"layers\":[]}"
      ",\"extension\":null,\"trained_length\":null},"
      "\"train\":{\"length\":128,\"batch_tokens\":4096,\"micro_batch_tokens\":1024,\"steps\":1000,\"lr\":0.001,\"min_lr\":0.0001,"
      "\"warmup\":50,\"schedule\":\"cosine\",\"weight_decay\":0.1,\"decay\":\"matrices\",\"betas\":[0.9,0.95],\"eps\":1e-08,"
      "\"grad_clip\":1.0,\"from\":\"\",\"phases\":[],\"log_every\":10,\"eval_every\":0,\"checkpoint_every\":200},"
      "\"eval\":{\"lengths\":[128,256,512,1024,2048],\"protocols\":[\"fixed_target\",\"nonoverlapping\"],\"split\":\"test\","
      "\"windows\":128,\"targets\":64,\"stride\":null,\"tokens\":65536,\"by_position\":32,\"state\":\"reset\",\"extensions\":[]},"
      "\"runtime\":{\"threads\":0,\"device\":\"auto\",\"dtype\":\"float32\",\"attention\":\"auto\"}}");
}

TEST(Experiment, ItsResolvedFormReadsBackAsItself) {
  for (
      const char* text :
      {R"({"model": {"position": "alibi"}})", R"({"model": {"position": {"scheme": "learned", "max_positions": 300}}})",
       R"({"name": "x", "seed": 7, "data": {"path": "a.txt"}, "model": {"heads": 8, "kv_heads": 2, "position": "sin"},
            "train": {"min_lr": 0},
            "eval": {"targets": 3, "stride": 5, "extensions": ["linear", {"method": "pi", "factor": 3}]}})",
       R"({"data": {"kind": "task", "task": {"task": "duplicate_string", "form": "same"}, "train_lengths": [1, 9]}, "model": {"position": "none"}})",
       R"({"data": {"kind": "task", "task": "passkey", "train_lengths": [64, 90], "depths": [0.5]}, "model": {"position": "none"}})"}) {
    const Experiment e = read(text);
    const std::string resolved = dump_json(resolved_json(e));
    const Experiment again = read_experiment(parse_json(resolved, "config.json"), "config");
    EXPECT_EQ(dump_json(resolved_json(again)), resolved);
    EXPECT_EQ(experiment_hash(again), experiment_hash(e));
  }
}

TEST(Experiment, EveryConfigOfTheRepositoryLoads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(POSENC_SOURCE_DIR "/configs")) {
    EXPECT_EQ(load_experiment(entry.path()).name, entry.path().stem()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 6);
}

TEST(Experiment, AnAliasStandsForTheName) {
  const Experiment e =
      read(R"({"model": {"position": "rotary"}, "eval": {"extensions": ["linear", {"method": "interpolation", "factor": 4}]}})");
  EXPECT_EQ(e.model.position.name, "rope");
  EXPECT_EQ(e.eval.extensions.at(0).name, "pi");
  EXPECT_EQ(e.eval.extensions.at(1).name, "pi");
  EXPECT_EQ(resolved_json(e).at("model").at("position").at("scheme"), "rope");
  EXPECT_EQ(
      experiment_hash(e),
      experiment_hash(read(
          R"({"model": {"position": "rope"}, "eval": {"extensions": [{"method": "pi"}, {"method": "pi", "factor": 4.0}]}})")));
}

TEST(Experiment, EveryProblemIsReportedAtOnceWithItsPlace) {
  EXPECT_EQ(refusal("{\"seed\": -1,\n"
                    " \"model\": {\"layers\": 0,\n"
                    "   \"heads\": 2.5,\n"
                    "   \"position\": {\"scheme\": \"rope\", \"base\": 1, \"theta\": 2}},\n"
                    " \"train\": {\"length\": \"64\"},\n"
                    " \"eval\": {\"protocols\": [\"fixed\"]},\n"
                    " \"evil\": {}}"),
            "rope.json:1:10: /seed: -1 is below 0\n"
            "rope.json:2:22: /model/layers: 0 is below 1\n"
            "rope.json:3:13: /model/heads: 2.5 is not an integer\n"
            "rope.json:4:43: /model/position/base: 1 is not greater than 1\n"
            "rope.json:4:55: /model/position/theta: unknown key \"theta\" (valid keys: base, partial, "
            "proportional, layout, learned, window, chunk, temperature, sinks, sampler, layers, scheme)\n"
            "rope.json:5:22: /train/length: \"64\" is not an integer (write 64 without quotes)\n"
            "rope.json:6:25: /eval/protocols/0: \"fixed\" is not one of fixed_target, nonoverlapping, sliding (did you mean "
            "\"fixed_target\"?)\n"
            "rope.json:7:10: /evil: unknown key \"evil\" (did you mean \"eval\"?)");
}

// Fault 59.
TEST(Experiment, AKeyAtTheWrongLevelIsUnknownThere) {
  EXPECT_EQ(refusal(train("\"learning_rat\": 0.1")),
            "rope.json:1:59: /train/learning_rat: unknown key \"learning_rat\" (did you mean \"lr\"?)");
  EXPECT_THAT(refusal(train("\"num-steps\": 10")),
              HasSubstr("/train/num-steps: unknown key \"num-steps\" (did you mean \"steps\"?)"));
  EXPECT_THAT(refusal(model("\"lr\": 0.1")),
              AllOf(HasSubstr("/model/lr: unknown key \"lr\" (valid keys: kind, layers,"), HasSubstr("trained_length)")));
  EXPECT_THAT(refusal("{\"lr\": 0.1, \"model\": {\"position\": \"none\"}}"),
              HasSubstr("/lr: unknown key \"lr\" (valid keys: name, seed, data, model, train, eval, runtime)"));
}

TEST(Experiment, NeedsAModelAndItsScheme) {
  EXPECT_EQ(refusal("{}"), "rope.json:1:1: missing key \"model\": architecture and positional scheme");
  EXPECT_THAT(refusal("{\"model\": {}}"), HasSubstr("/model: missing key \"position\""));
  EXPECT_THAT(refusal(model("", "{}")),
              HasSubstr("/model/position: expected the name of a scheme, or an object such as {\"scheme\": \"none\"}"));
  EXPECT_THAT(refusal(model("", "3")), HasSubstr("/model/position: expected the name of a scheme"));
}

TEST(Experiment, AnUnknownSchemeNamesTheNearest) {
  EXPECT_EQ(refusal(model("", "\"ropee\"")),
            "rope.json:1:24: /model/position: no scheme is called \"ropee\" (did you mean \"rope\"?); there are none, "
            "sinusoidal, learned, shaw, transformer_xl, deberta, rel_scalar, t5, alibi, kerple_log, kerple_power, "
            "kerple_power_weight, sandwich, dynamic, fire, rope, xpos, polar, cope, dape, dape_v2, fox, stick_breaking, path");
  EXPECT_THAT(refusal(model("", "{\"scheme\": \"rotari\"}")), HasSubstr("(did you mean \"rotary\"?)"));
  EXPECT_THAT(
      refusal("{\"model\": {\"position\": \"none\"}, \"eval\": {\"extensions\": [\"yarm\"]}}"),
      HasSubstr("/eval/extensions/0: no extension is called \"yarm\" (did you mean \"yarn\"?); there are truncate, window, pi,"));
}

// Fault 4: an odd head width is refused by the scheme that cannot take it, before anything is built, and by no other.
TEST(Experiment, RopeNeedsAnEvenHeadWidth) {
  EXPECT_EQ(refusal(model("\"d_model\": 520, \"heads\": 8", "\"rope\"")),
            "rope.json:1:52: /model/position: rope turns pairs of dims and needs an even rotary width: head_dim 65 is odd");
  EXPECT_THAT(refusal(model("\"d_model\": 8, \"heads\": 8", "\"rope\"")), HasSubstr("head_dim 1 is too small"));
  for (const char* scheme : {"\"alibi\"", "\"t5\"", "\"none\"", "\"learned\"", "\"sinusoidal\""}) {
    EXPECT_EQ(refusal(model("\"d_model\": 520, \"heads\": 8", scheme)), "") << scheme;
  }
}

// Fault 5.
TEST(Experiment, RopeNeedsAnEvenPartOfAHead) {
  const std::string half = "{\"scheme\": \"rope\", \"partial\": 0.5}";
  EXPECT_THAT(refusal(model("\"d_model\": 40", half)),
              HasSubstr("/model/position/partial: rope turns pairs of dims and needs an even rotary width: "
                        "head_dim 10 x partial gives 5, which is odd"));
  EXPECT_EQ(refusal(model("\"d_model\": 48", half)), "");
  EXPECT_THAT(refusal(model("\"d_model\": 48", "{\"scheme\": \"rope\", \"partial\": 1.5}")),
              HasSubstr("/model/position/partial: 1.5 is above 1"));
}

TEST(Experiment, SchemesRefuseSizesTheyCannotTake) {
  EXPECT_THAT(refusal(model("", "{\"scheme\": \"learned\", \"max_positions\": 64}")),
              HasSubstr("/model/position/max_positions: 64 is below the training length 128"));
  EXPECT_THAT(refusal(model("\"d_model\": 7, \"heads\": 1", "{\"scheme\": \"sinusoidal\", \"frequencies\": \"tensor2tensor\"}")),
              HasSubstr("/model/position/frequencies: tensor2tensor needs an even width of at least 4, not 7"));
  EXPECT_THAT(refusal(model("", "{\"scheme\": \"t5\", \"buckets\": 31}")), HasSubstr("/model/position/buckets: 31 is odd"));
  EXPECT_THAT(refusal(model("", "{\"scheme\": \"t5\", \"max_distance\": 16}")),
              HasSubstr("max_distance: 16 must exceed buckets/2 = 16"));
}

// Fault 64: exact or refused, never cut to 32 bits.
TEST(Experiment, IntegersAreExactOrRefused) {
  EXPECT_THAT(refusal(train("\"steps\": 4294967300")), HasSubstr("/train/steps: 4294967300 is above 100000000"));
  EXPECT_THAT(refusal(train("\"batch_tokens\": 16.5")), HasSubstr("/train/batch_tokens: 16.5 is not an integer"));
  EXPECT_EQ(read(model("\"d_model\": 64.0")).model.d_model, 64);
  EXPECT_EQ(read(train("\"steps\": 1e3")).train.steps, 1000);
}

// Fault 66.
TEST(Experiment, HeadsDivideTheWidth) {
  EXPECT_THAT(refusal(model("\"d_model\": 64, \"heads\": 0")), HasSubstr("/model/heads: 0 is below 1"));
  EXPECT_THAT(refusal(model("\"d_model\": 64, \"heads\": -4")), HasSubstr("/model/heads: -4 is below 1"));
  EXPECT_EQ(refusal(model("\"d_model\": 64, \"heads\": 7")),
            "rope.json:1:36: /model/heads: 7 does not divide d_model 64 (try 4 or 8, or give head_dim)");
  EXPECT_THAT(refusal(model("\"layers\": 0")), HasSubstr("/model/layers: 0 is below 1"));
  EXPECT_THAT(refusal(model("\"heads\": 4, \"kv_heads\": 3")),
              HasSubstr("/model/kv_heads: 3 does not divide heads 4 (try 2 or 4)"));
  EXPECT_THAT(refusal(model("\"heads\": 4, \"kv_heads\": 8")), HasSubstr("/model/kv_heads: 8 does not divide heads 4"));
}

// Fault 67: a width of its own for the heads is taken everywhere, whether or not it divides d_model.
TEST(Experiment, AnExplicitHeadWidthIsUsed) {
  EXPECT_EQ(read(model("\"d_model\": 64, \"heads\": 4, \"head_dim\": 15")).shape().head_dim, 15);
  EXPECT_THAT(refusal(model("\"d_model\": 64, \"heads\": 4, \"head_dim\": 15", "\"rope\"")), HasSubstr("head_dim 15 is odd"));
  EXPECT_EQ(experiment_hash(read(model("\"d_model\": 64, \"heads\": 4, \"head_dim\": 16"))),
            experiment_hash(read(model("\"d_model\": 64, \"heads\": 4"))));
  EXPECT_THAT(refusal(model("\"d_model\": 60, \"heads\": 8")),
              HasSubstr("8 does not divide d_model 60 (try 6 or 10, or give head_dim)"));
}

// Fault 69: the base is what was written, or the default that is shown; a second spelling is no silent winner.
TEST(Experiment, TheRopeBaseIsTheOneWritten) {
  const auto base = [](const std::string& scheme) {
    return resolved_json(read(model("", scheme))).at("model").at("position").at("base");
  };
  EXPECT_EQ(base("{\"scheme\": \"rope\", \"base\": 500000}"), 500000);
  EXPECT_EQ(base("{\"scheme\": \"rope\"}"), 10000);
  EXPECT_EQ(base("\"rope\""), 10000);
  EXPECT_THAT(refusal(model("", "{\"scheme\": \"rope\", \"base\": 500000, \"rope_theta\": 10000}")),
              HasSubstr("unknown key \"rope_theta\""));
}

// Fault 71: a warm-up as long as the training, or longer, divides by nothing.
TEST(Experiment, AnyWarmUpGivesFiniteRates) {
  for (const char* members : {"\"warmup\": 10, \"steps\": 10", "\"warmup\": 12, \"steps\": 10", "\"warmup\": 0, \"steps\": 10",
                              "\"warmup\": 0, \"steps\": 1", "\"warmup\": 1, \"steps\": 1", "\"warmup\": 0, \"steps\": 0"}) {
    for (const char* schedule : {"cosine", "linear", "constant"}) {
      const Experiment e = read(train(std::string(members) + ", \"schedule\": \"" + schedule + "\""));
      for (std::int64_t step = 0; step <= 13; ++step) {
        const double rate = learning_rate(e.train, step);
        EXPECT_TRUE(std::isfinite(rate) && rate >= 0) << members << " " << schedule << " at " << step << ": " << rate;
      }
    }
  }
}

// Fault 73.
TEST(Experiment, ASeedKeepsAllItsBits) {
  const auto with_seed = [](const std::string& seed) { return "{\"seed\": " + seed + ", \"model\": {\"position\": \"none\"}}"; };
  EXPECT_EQ(read(with_seed("4294967297")).seed, 4294967297);
  EXPECT_EQ(read(with_seed("0")).seed, 0);
  EXPECT_NE(experiment_hash(read(with_seed("1"))), experiment_hash(read(with_seed("4294967297"))));
  EXPECT_THAT(refusal(with_seed("-1")), HasSubstr("/seed: -1 is below 0"));
  EXPECT_THAT(refusal(with_seed("1.5")), HasSubstr("/seed: 1.5 is not an integer"));
}

TEST(Experiment, ABatchHoldsWholeSequences) {
  EXPECT_THAT(refusal(train("\"length\": 100")),
              HasSubstr("/train/batch_tokens: 4096 is not a multiple of length 100 (try 4000 or 4100)"));
  EXPECT_THAT(refusal(train("\"length\": 8192")),
              HasSubstr("/train/batch_tokens: 4096 is less than one sequence of length 8192"));
  EXPECT_THAT(refusal(train("\"betas\": [0.9]")), HasSubstr("/train/betas: needs two numbers"));
}

TEST(Experiment, TheEvaluationFitsTheTraining) {
  const auto eval = [](const std::string& members, const std::string& scheme = "\"rope\"") {
    return refusal("{\"model\": {\"position\": " + scheme + "}, \"train\": {\"length\": 32}, \"eval\": {" + members + "}}");
  };
  EXPECT_EQ(eval("\"lengths\": [32], \"targets\": 16, \"protocols\": [\"fixed_target\", \"sliding\"], \"stride\": 32"), "");
  EXPECT_THAT(eval("\"targets\": 17"), HasSubstr("/eval/targets: 17 is more than 16: at most half the training length"));
  EXPECT_THAT(eval("\"lengths\": [8, 32], \"targets\": 9"), HasSubstr("/eval/targets: 9 is more than 8"));
  EXPECT_EQ(eval("\"lengths\": [8, 32], \"targets\": 9, \"protocols\": [\"nonoverlapping\"]"), "");
  EXPECT_THAT(eval("\"lengths\": [8, 32], \"protocols\": [\"sliding\"], \"stride\": 9"),
              HasSubstr("/eval/stride: 9 is more than the shortest"));
  EXPECT_THAT(eval("\"lengths\": []"), HasSubstr("/eval/lengths: needs at least one length"));
  EXPECT_THAT(eval("\"protocols\": []"), HasSubstr("/eval/protocols: needs at least one protocol"));
  EXPECT_THAT(eval("\"lengths\": [0]"), HasSubstr("/eval/lengths/0: 0 is below 1"));
  EXPECT_THAT(eval("\"lengths\": [32, 64, 32]"), HasSubstr("/eval/lengths/2: is given twice"));
  EXPECT_THAT(eval("\"protocols\": [\"sliding\", \"sliding\"]"), HasSubstr("/eval/protocols/1: is given twice"));
  EXPECT_THAT(eval("\"extensions\": [\"pi\", {\"method\": \"linear\"}]"), HasSubstr("/eval/extensions/1: is given twice"));
  EXPECT_THAT(eval("\"tokens\": 1"), HasSubstr("/eval/tokens: 1"));  // holds no target
  EXPECT_THAT(eval("\"extensions\": [\"pi\"]", "\"t5\""),
              HasSubstr("/eval/extensions/0: pi needs a scheme that is defined at fractional positions; t5 is not"));
  EXPECT_THAT(eval("\"extensions\": [{\"method\": \"pi\", \"factor\": 0.5}]"),
              HasSubstr("/eval/extensions/0/factor: 0.5 is below 1"));
}

TEST(Experiment, ANameIsSafeAsAFolder) {
  const auto named = [](const std::string& name) {
    return refusal("{\"name\": \"" + name + "\", \"model\": {\"position\": \"none\"}}");
  };
  EXPECT_EQ(named("a-b_C.1"), "");
  for (const char* name : {"../x", "a/b", "..", "-x", "a b", "ä"})
    EXPECT_THAT(named(name), HasSubstr("/name: a run name is")) << name;
  EXPECT_THAT(named(std::string(101, 'a')), HasSubstr("/name: a run name is"));
  EXPECT_EQ(named(std::string(100, 'a')), "");
  EXPECT_THROW(read_experiment(parse_json(model(""), "c.json"), "a b"), ConfigError);  // a stem that is none
}

TEST(ExperimentHash, IsOfWhatDecidesTheNumbers) {
  const auto hash = [](const std::string& members) {
    return experiment_hash(read("{\"model\": {\"position\": \"rope\"}" + members + "}"));
  };
  const std::string plain = hash("");
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ(hash(", \"name\": \"other\", \"runtime\": {\"threads\": 3}"), plain);
  EXPECT_EQ(hash(", \"train\": {\"lr\": 0.001}"), plain);
  for (const char* members : {", \"seed\": 2", ", \"train\": {\"lr\": 0.002}", ", \"runtime\": {\"dtype\": \"float64\"}",
                              ", \"eval\": {\"windows\": 9}", ", \"data\": {\"corpus\": \"kjv\"}"}) {
    EXPECT_NE(hash(members), plain) << members;
  }
}

TEST(LoadExperiment, AppliesOverridesAndNamesThemInProblems) {
  const Scratch scratch;
  const auto path = scratch / "tiny.json";
  std::ofstream(path) << "// a comment\n{\"model\": {\"position\": \"rope\"}}";
  const Experiment e = load_experiment(path, {"/train/length=64", "/model/position={\"scheme\": \"alibi\"}"});
  EXPECT_EQ(e.name, "tiny");
  EXPECT_EQ(e.train.length, 64);
  EXPECT_EQ(e.model.position.name, "alibi");
  EXPECT_EQ(message_of<ConfigError>([&] {
              load_experiment(path, {"/train/lenght=64", "/seed=-1"});
            }),
            "--set /train/lenght=64: /train/lenght: unknown key \"lenght\" (did you mean \"length\"?)\n--set /seed=-1: /seed: -1 "
            "is below 0");
  EXPECT_THROW(load_experiment(scratch / "missing.json"), IoError);
}

// Copying 20 symbols takes <s>, 20, the mark and 20: 42 positions; 97 such sequences fit into 4096.
TEST(ExperimentOnATask, HasTheTrainingLengthOfItsLongestExample) {
  const Experiment e =
      read(R"({"data": {"kind": "task", "task": "copy", "train_lengths": [1, 20]}, "model": {"position": "learned"}})");
  EXPECT_EQ(e.train.length, 42);
  EXPECT_EQ(e.train.batch_tokens, 97 * 42);
  EXPECT_EQ(e.shape().positions, 42);
  EXPECT_EQ(*e.data.test_lengths, (std::vector<std::int64_t>{10, 20, 30, 40}));
  EXPECT_TRUE(e.eval.lengths.empty());
}

TEST(ExperimentOnATask, LeavesNoRoomForWhatBelongsToText) {
  const auto problem = [](const std::string& more) {
    return refusal(R"({"data": {"kind": "task", "task": "copy", "train_lengths": [1, 20]}, "model": {"position": "none"})" +
                   more + "}");
  };
  EXPECT_THAT(problem(R"(, "train": {"length": 64})"), HasSubstr("/train/length: 64 does not follow from data.train_lengths"));
  EXPECT_THAT(problem(R"(, "eval": {"lengths": [64]})"), HasSubstr("/eval/lengths"));
  EXPECT_THAT(problem(R"(, "eval": {"protocols": ["sliding"]})"), HasSubstr("/eval/protocols"));
  EXPECT_THAT(problem(R"(, "train": {"batch_tokens": 41})"), HasSubstr("41 is less than one sequence of length 42"));
}

}  // namespace
}  // namespace posenc
