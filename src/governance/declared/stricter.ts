import { namersOfGroup, waitingForGroup } from '../../db/queries/people.ts'
import {
  whyLooserMembers,
  whyLooserOverride,
  whyLooserPolicy,
  type PolicyBody,
} from '../../policy/strictness-access.ts'
import { whyLooserSettings } from '../../policy/strictness-settings.ts'
import { holdsCalls } from '../../policy/strictness.ts'
import type { JsonObject } from '../../policy/types.ts'
import { nextTurn } from '../../shared/time-slices.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { UsualTerms } from '../changes/gate.ts'
import { savedIn, whyLooser, type Saved } from '../rules/looser.ts'
import type { AnyBody, RuleKindName } from '../rules/rule-kinds.ts'
import { isRule, keyedId, type Item } from './plan.ts'

/*
 * Why an application of files may decide some call less strictly. Each change is compared with what the changes before it
 * leave, in an order in which they could be made one by one.
 */

/** More take too long under the lock, so they wait for a second person in any case. */
const mostCompared = 50

export async function whyLooserItems(
  tx: ChainTx,
  all: readonly Item[],
  terms: UsualTerms,
  readWaiting: () => Promise<ReadonlySet<string>>,
): Promise<string[]> {
  let read: Promise<ReadonlySet<string>> | null = null
  const waiting = () => (read ??= readWaiting())
  const items = all.filter(({ isOther, kind }) => isOther && kind !== 'workflow')
  const rules = items.filter(isRule)
  if (rules.length > mostCompared)
    return [
      `it changes ${rules.length} rules and label rules: more than ${mostCompared} are not compared with the others`,
    ]
  const why = new Set<string>()
  const add = (reasons: readonly string[]): void => reasons.forEach((reason) => why.add(reason))
  for (const item of items.filter(({ kind }) => kind === 'group')) add(await whyGroup(tx, item))
  let saved = savedIn(tx.policy)
  for (const { declared } of items.filter(({ kind }) => kind === 'organization')) {
    const settings = { ...saved.settings, ...declared?.body } as Saved['settings']
    const hasHolds = saved.rules.some(holdsCalls)
    if (declared !== null) add(whyLooserSettings(saved.settings, settings, { hasHolds }))
    saved = { ...saved, settings }
  }
  // New ones first, so that a rule may take the place of another.
  for (const item of [...rules].sort(
    (one, other) => Number(one.action === 'delete') - Number(other.action === 'delete'),
  )) {
    const kind = item.kind as RuleKindName
    const id = keyedId(item)
    const [before, after] = [item.before, item.after] as [AnyBody | null, AnyBody | null]
    add(await whyLooser(saved, { kind, id, before, after }, terms, waiting))
    saved = withRule(saved, kind, id, item.after)
    await nextTurn()
  }
  for (const { kind, before, after } of items) {
    if (kind === 'tool_policy') add(whyLooserPolicy(before as PolicyBody | null, after as PolicyBody | null))
    if (kind === 'role_override') add(whyLooserOverride(allowedIn(before), allowedIn(after)))
  }
  return [...why]
}

const allowedIn = (body: JsonObject | null): boolean | null =>
  body === null ? null : body['allowed'] === true

function withRule(saved: Saved, kind: RuleKindName, id: string, body: JsonObject | null): Saved {
  const field = kind === 'rule' ? 'rules' : 'labelRules'
  const others = saved[field].filter((rule) => rule.id !== id)
  return { ...saved, [field]: body === null ? others : [...others, { ...body, id }] }
}

/** Calls that wait now for a group whose members change. */
export async function whyLooserForNow(tx: ChainTx, items: readonly Item[]): Promise<string[]> {
  const groups = items.filter(({ kind, present, isOther }) => kind === 'group' && present !== null && isOther)
  const why = await Promise.all(
    groups.map(async (item) =>
      whyLooserMembers(
        await tx.send(waitingForGroup(tx.organizationId, item.present?.id ?? '')),
        movesOf(item),
      ),
    ),
  )
  return why.flat()
}

const whyGroup = async (tx: ChainTx, item: Item): Promise<string[]> =>
  whyLooserMembers(await tx.send(namersOfGroup(tx.organizationId, item.name)), movesOf(item))

function movesOf({ before, after }: Item): { readonly comes: boolean; readonly goes: boolean } {
  const members = (body: JsonObject | null) => (body?.['members'] ?? []) as string[]
  const [had, has] = [members(before), members(after)]
  return { comes: has.some((each) => !had.includes(each)), goes: had.some((each) => !has.includes(each)) }
}
