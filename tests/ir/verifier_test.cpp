// SPDX-License-Identifier: Apache-2.0
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/builder.h"

namespace krafla {
namespace {

Shape F32(std::initializer_list<int64_t> dims) { return Shape::MakeArray(ElementType::kF32, Dims(dims)).value(); }
const Shape kF32Scalar = Shape::MakeScalar(ElementType::kF32);

// A module "m" with an entry "main" that takes x: f32[4].
struct Fixture {
  Module module{"m"};
  Computation* main = module.AddComputation("main");
  Instruction* x = AddParameter(*main, 0, F32({4}), "x");
  Fixture() { module.set_entry(main); }

  // f(a, b) = a op b on scalars.
  Computation* Binary(std::string_view name, Opcode opcode = Opcode::kAdd) {
    Computation* f = module.AddComputation(name);
    Instruction* a = AddParameter(*f, 0, kF32Scalar);
    Instruction* b = AddParameter(*f, 1, kF32Scalar);
    f->set_root(AddInferred(*f, opcode, {a, b}).value());
    return f;
  }
  Instruction* Add(Opcode opcode, Shape shape, std::vector<Instruction*> operands, Attributes attributes = {},
                   std::vector<Computation*> called = {}) {
    return main->Add(opcode, std::move(shape), std::move(operands), std::move(attributes), std::move(called), "r");
  }
  void Negated() { main->set_root(AddInferred(*main, Opcode::kNegate, {x}).value()); }
};

void Passes(Module& m, int line = __builtin_LINE()) {
  auto verified = Verify(m);
  EXPECT_TRUE(verified.has_value()) << "line " << line << ": " << verified.error().message();
}
void Fails(Module& m, std::string_view part, StatusCode code = StatusCode::kInvalidArgument,
           int line = __builtin_LINE()) {
  auto verified = Verify(m);
  ASSERT_FALSE(verified.has_value()) << "line " << line;
  EXPECT_EQ(verified.error().code(), code) << "line " << line;
  EXPECT_NE(verified.error().message().find(part), std::string::npos)
      << "line " << line << ": " << verified.error().message();
}

TEST(Verifier, AcceptsAndSorts) {
  Fixture f;
  Instruction* late = f.Add(Opcode::kNegate, F32({4}), {});
  Instruction* early = f.Add(Opcode::kAbs, F32({4}), {f.x});
  f.main->SetOperands(late, {early});
  f.main->set_root(late);
  Passes(f.module);
  const auto& order = f.main->instructions();
  EXPECT_EQ(order[1].get(), early);
  EXPECT_EQ(order[2].get(), late);
  auto verified = VerifiedModule::Make(f.module.Clone());
  EXPECT_TRUE(verified.has_value());
}

TEST(Verifier, NamesInstructionAndLine) {
  Fixture f;
  Instruction* r = f.Add(Opcode::kNegate, F32({5}), {f.x});
  r->set_location({12, 3});
  f.main->set_root(r);
  Fails(f.module,
        "'r' (negate, line 12) in computation 'main': It is declared as f32[5]; from its "
        "operands, attributes and computations follows f32[4].");
}

TEST(Verifier, LayoutsDoNotMatterToShapes) {
  Fixture f;
  Shape column = F32({2, 2});
  ASSERT_TRUE(column.SetLayout(Layout{{0, 1}, ""}).has_value());
  Instruction* y = AddParameter(*f.main, 1, column);
  f.main->set_root(f.Add(Opcode::kNegate, F32({2, 2}), {y}));
  Passes(f.module);
}

TEST(Verifier, Structure) {
  {
    Module m("m");
    Fails(m, "no entry");
  }
  {
    Fixture f;
    Fails(f.module, "no root");
    f.module.AddComputation("empty");
    f.Negated();
    Fails(f.module, "no instructions");
  }
  {
    Fixture f;
    f.Negated();
    f.module.replica_count = 0;
    Fails(f.module, "replica_count=0");
    f.module.replica_count = int64_t{1} << 40;
    f.module.num_partitions = int64_t{1} << 40;
    Fails(f.module, "devices");
  }
  {
    Fixture f, other;
    f.main->set_root(f.Add(Opcode::kNegate, F32({4}), {other.x}));
    Fails(f.module, "not an instruction of this computation");
  }
}

TEST(Verifier, Parameters) {
  {
    Fixture f;
    AddParameter(*f.main, 2, F32({4}));
    f.Negated();
    Fails(f.module, "no parameter 1");
  }
  {
    Fixture f;
    AddParameter(*f.main, 0, F32({4}), "again");
    f.Negated();
    Fails(f.module, "given twice");
  }
}

TEST(Verifier, Cycles) {
  {
    Fixture f;
    Instruction* a = f.Add(Opcode::kNegate, F32({4}), {});
    Instruction* b = f.Add(Opcode::kNegate, F32({4}), {a});
    f.main->SetOperands(a, {b});
    f.main->set_root(b);
    Fails(f.module, "depends on itself");
  }
  {
    Fixture f;
    Instruction* a = f.Add(Opcode::kNegate, F32({4}), {f.x});
    Instruction* b = f.Add(Opcode::kNegate, F32({4}), {a});
    a->AddControlPredecessor(b);
    f.main->set_root(b);
    Fails(f.module, "depends on itself");
  }
}

TEST(Verifier, Recursion) {
  Fixture f;
  f.main->set_root(f.Add(Opcode::kCall, F32({4}), {f.x}, CallAttributes{}, {f.main}));
  Fails(f.module, "calls itself");
}

// A chain of n computations below the entry, each calling the next.
void AddChain(Fixture& f, int n) {
  Computation* below = nullptr;
  for (int i = 0; i < n; ++i) {
    Computation* c = f.module.AddComputation("f");
    Instruction* p = AddParameter(*c, 0, F32({4}));
    c->set_root(below == nullptr ? AddInferred(*c, Opcode::kNegate, {p}).value()
                                 : AddInferred(*c, Opcode::kCall, {p}, CallAttributes{}, {below}).value());
    below = c;
  }
  f.main->set_root(AddInferred(*f.main, Opcode::kCall, {f.x}, CallAttributes{}, {below}).value());
}

TEST(Verifier, CallDepth) {
  Fixture shallow, deep, very_deep;
  AddChain(shallow, 255);
  Passes(shallow.module);
  AddChain(deep, 256);
  Fails(deep.module, "more than 256 deep", StatusCode::kUnimplemented);
  AddChain(very_deep, 50'000);
  Fails(very_deep.module, "more than 256 deep", StatusCode::kUnimplemented);
}

TEST(Verifier, NoInfeedInAReducer) {
  Fixture f;
  Computation* add = f.Binary("add");
  Instruction* token = AddInferred(*add, Opcode::kAfterAll, {}).value();
  Shape fed = Shape::MakeTuple({kF32Scalar, Shape::MakeToken()}).value();
  add->Add(Opcode::kInfeed, fed, {token}, InfeedAttributes{});
  Instruction* zero = AddScalarConstant(*f.main, ElementType::kF32, 0);
  f.main->set_root(AddInferred(*f.main, Opcode::kReduce, {f.x, zero}, DimensionsAttributes{{0}}, {add}).value());
  Fails(f.module, "applies to elements", StatusCode::kUnimplemented);
}

TEST(Verifier, AsyncPairs) {
  auto start = [](Fixture& f) { return AddInferred(*f.main, Opcode::kCopyStart, {f.x}).value(); };
  {
    Fixture f;
    f.main->set_root(AddInferred(*f.main, Opcode::kCopyDone, {start(f)}).value());
    Passes(f.module);
  }
  {
    Fixture f;
    start(f);
    f.Negated();
    Fails(f.module, "must have one user");
  }
  {
    Fixture f;
    Instruction* s = start(f);
    AddInferred(*f.main, Opcode::kCopyDone, {s}).value();
    f.main->set_root(AddInferred(*f.main, Opcode::kCopyDone, {s}).value());
    Fails(f.module, "must have one user");
  }
  {
    Fixture f;
    f.main->set_root(AddGetTupleElement(*f.main, start(f), 0).value());
    Fails(f.module, "must be used by its copy-done only");
  }
  {
    Fixture f;
    Instruction* scalar = AddScalarConstant(*f.main, ElementType::kU32, 0);
    Instruction* tuple = AddTuple(*f.main, {f.x, f.x, scalar}).value();
    f.main->set_root(AddInferred(*f.main, Opcode::kCopyDone, {tuple}).value());
    Fails(f.module, "must be what it ends");
  }
  {
    Fixture f;
    Instruction* token = AddInferred(*f.main, Opcode::kAfterAll, {}).value();
    Shape received = Shape::MakeTuple({F32({4}), Shape::MakeScalar(ElementType::kU32), Shape::MakeToken()}).value();
    Instruction* recv =
        AddInferred(*f.main, Opcode::kRecv, {token}, ChannelAttributes{1, false}, {}, &received).value();
    Instruction* done = AddInferred(*f.main, Opcode::kRecvDone, {recv}, ChannelAttributes{2, false}).value();
    f.main->set_root(AddGetTupleElement(*f.main, done, 0).value());
    Fails(f.module, "channel_id=2");
    done->set_attributes(ChannelAttributes{1, false});
    Passes(f.module);
  }
}

TEST(Verifier, AsyncThreads) {
  Fixture f;
  Computation* g = f.module.AddComputation("g");
  g->set_root(AddInferred(*g, Opcode::kNegate, {AddParameter(*g, 0, F32({4}))}).value());
  Instruction* start = AddInferred(*f.main, Opcode::kAsyncStart, {f.x}, AsyncAttributes{"main"}, {g}).value();
  Instruction* update = AddInferred(*f.main, Opcode::kAsyncUpdate, {start}, AsyncAttributes{}).value();
  f.main->set_root(AddInferred(*f.main, Opcode::kAsyncDone, {update}, AsyncAttributes{}).value());
  Passes(f.module);
  g->set_execution_thread("worker");
  Fails(f.module, "thread 'main'");
}

TEST(Verifier, Aliases) {
  Fixture f;
  f.Negated();
  InputOutputAlias alias;
  f.module.input_output_aliases = {alias};
  Passes(f.module);
  f.module.input_output_aliases = {alias, alias};
  Fails(f.module, "twice");
  alias.parameter = 7;
  f.module.input_output_aliases = {alias};
  Fails(f.module, "names parameter 7");
  alias.parameter = 0;
  alias.output_index = {0};
  f.module.input_output_aliases = {alias};
  Fails(f.module, "names output {0}");
  f.module.input_output_aliases = {InputOutputAlias()};
  f.module.buffer_donors = {BufferDonor()};
  Fails(f.module, "given away already");
  f.module.input_output_aliases.clear();
  Passes(f.module);
  f.module.buffer_donors = {BufferDonor{0, {2}}};
  Fails(f.module, "not an array");
}

TEST(Verifier, EntryLayout) {
  Fixture f;
  f.Negated();
  f.module.entry_layout_result = F32({4});
  f.module.entry_layout_parameters = {F32({4})};
  Passes(f.module);
  f.module.entry_layout_parameters = {F32({5})};
  Fails(f.module, "entry_computation_layout has f32[5]");
  f.module.entry_layout_parameters = {};
  Fails(f.module, "has 0 parameters");
  f.module.entry_layout_parameters = {F32({4})};
  f.module.entry_layout_result = F32({5});
  Fails(f.module, "has the result f32[5]");
}

TEST(Verifier, LargeGraphsTakeLinearTime) {
  Fixture f;
  Instruction* last = f.x;
  for (int i = 0; i < 200'000; ++i) last = f.main->Add(Opcode::kNegate, F32({4}), {last});
  f.main->set_root(last);
  Passes(f.module);
}

TEST(Verifier, ManyUsersTakeLinearTime) {
  Fixture f;
  Instruction* last = f.x;
  for (int i = 0; i < 200'000; ++i) last = f.main->Add(Opcode::kAdd, F32({4}), {f.x, i % 2 == 0 ? last : f.x});
  f.main->set_root(last);
  EXPECT_EQ(f.x->users().size(), 200'000u);
  Passes(f.module);
}

TEST(Verifier, OneHugeTupleManyTimes) {
  // Each call is a short line of text and looks at 20,000 leaves.
  Fixture f;
  Instruction* tuple = AddTuple(*f.main, std::vector<Instruction*>(10'000, f.x)).value();
  Computation* g = f.module.AddComputation("g");
  g->set_root(AddGetTupleElement(*g, AddParameter(*g, 0, tuple->shape()), 0).value());
  for (int i = 0; i < 20'000; ++i)
    f.main->set_root(f.main->Add(Opcode::kCall, F32({4}), {tuple}, CallAttributes{}, {g}));
  Fails(f.module, "leaves in all", StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace krafla
