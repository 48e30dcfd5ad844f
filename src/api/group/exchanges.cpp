// SPDX-License-Identifier: Apache-2.0
#include "api/group/exchanges.h"

#include <cstring>

#include "api/group/reduction_combiner.h"
#include "base/index.h"

namespace krafla {

Result<Exchanges> Exchanges::Make(const Module& module, const DeviceGrid& grid) {
  Exchanges out;
  for (const Instruction* i : Of(module)) {
    Exchange exchange;
    if (std::holds_alternative<CollectiveAttributes>(i->attributes())) {
      std::shared_ptr<const Combiner> combiner;
      if (!i->called().empty()) { KRAFLA_ASSIGN(combiner, out.CombinerOf(*i->called(0))); }
      KRAFLA_ASSIGN(exchange.collective, Collective::Make(*i, grid, std::move(combiner)));
    } else if (i->attr<ChannelAttributes>().is_host_transfer) {
      return Unimplemented("{}: Transfers to and from the host are not supported.", Describe(*i));
    } else {
      KRAFLA_ASSIGN(exchange.pairs, DevicePairs(*i, grid));
      exchange.channel = i->attr<ChannelAttributes>().channel_id.value_or(0);
      exchange.what = Format("{} '{}'", OpcodeName(i->opcode()), i->name());
      const Shape& data = i->opcode() == Opcode::kSend ? i->operand(0)->shape() : i->shape().tuple_elements()[0];
      for (const Shape* leaf : TupleLeaves(data)) {
        if (leaf->IsDynamic()) return Unimplemented("{}: Arrays with dynamic dimensions cannot be sent.", Describe(*i));
        if (leaf->IsArray()) exchange.sizes.push_back(leaf->byte_size());
      }
    }
    out.exchanges_.push_back(std::move(exchange));
  }
  return out;
}

std::unordered_map<const Instruction*, std::size_t> Exchanges::Number(const Module& module) {
  std::unordered_map<const Instruction*, std::size_t> out;
  for (const Instruction* i : Of(module)) out.emplace(i, out.size());
  return out;
}

std::vector<const Instruction*> Exchanges::Of(const Module& module) {
  std::vector<const Instruction*> out;
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (IsExchange(i->opcode())) out.push_back(i.get());
  return out;
}

Result<> Exchanges::Run(std::size_t number, Opcode opcode, int64_t device, const Places& places,
                        std::span<const std::byte* const> operands, std::span<std::byte* const> results) const {
  const Exchange& e = exchanges_[number];
  const auto is_far = [&](int64_t other) { return places.spanning != nullptr && !places.spanning->IsHere(other); };
  if (e.collective != nullptr) {
    const int group = e.collective->GroupOf(device);
    if (places.spanning == nullptr || group < 0 || places.spanning->AreHere(e.collective->Members(group)))
      return places.rendezvous.Meet(device, *e.collective, {operands, results});
    places.rendezvous.EnterElsewhere(device, e.collective->description(), e.collective->bytes());
    Result<> met = places.spanning->Meet(device, *e.collective, number, {operands, results}, places.stop);
    places.rendezvous.ReturnFromElsewhere(device);
    return met;
  }
  for (auto [source, target] : e.pairs) {
    const bool sends = opcode == Opcode::kSend && source == device;
    if (!sends && (opcode != Opcode::kRecvDone || target != device)) continue;
    const Rendezvous::Channel channel{e.channel, source, target};
    if (!is_far(sends ? target : source))
      return sends ? places.rendezvous.Send(channel, operands, e.sizes, e.what)
                   : places.rendezvous.Receive(channel, results, e.sizes, e.what);
    places.rendezvous.EnterElsewhere(device, e.what, 0);
    Result<> done = sends ? places.spanning->Send(channel, operands, e.sizes, e.what, places.stop)
                          : places.spanning->Receive(channel, results, e.sizes, e.what, places.stop);
    places.rendezvous.ReturnFromElsewhere(device);
    return done;
  }
  // Whom nobody sends to receives zeros, as in a collective-permute.
  for (std::size_t k = 0; k < results.size() && k < e.sizes.size(); ++k)
    if (e.sizes[k] > 0) std::memset(results[k], 0, At(e.sizes[k]));
  return {};
}

// Most reductions of a program are the same sum.
Result<std::shared_ptr<const Combiner>> Exchanges::CombinerOf(const Computation& c) {
  const Instruction& root = *c.root();
  const bool plain = c.instructions().size() == 3 && root.operand_count() == 2 && root.operand(0) != root.operand(1) &&
                     HasTrait(root.opcode(), op_trait::kCommutative);
  if (!plain) return MakeCombiner(c);
  std::shared_ptr<const Combiner>& cached = combiners_[{root.opcode(), root.shape().element_type()}];
  if (cached == nullptr) { KRAFLA_ASSIGN(cached, MakeCombiner(c)); }
  return cached;
}

}  // namespace krafla
