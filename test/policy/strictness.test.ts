import fc from 'fast-check'
import { describe, expect, jest, test } from '@jest/globals'
import { labelRuleInput, ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { decide } from '../../src/policy/decide.ts'
import type { RuleBody, StoredRule } from '../../src/policy/rule.ts'
import { isDecidedAsStrictly, whyLooserLabelRule, whyLooserRule } from '../../src/policy/strictness.ts'
import { whyLooserSignIn, type SignInBody } from '../../src/policy/strictness-access.ts'
import { facts } from '../../src/tools/index.ts'
import { compilePolicy } from '../support/compile.ts'
import { changes, wider, withWiderRules } from './wider-rules.ts'

const rule = (body: object): RuleBody => ruleInput.parse({ name: 'it', ...body })
const terms = { facts, threshold: 1, usualSeconds: 3_600 }
const deny = { verdict: 'deny' }
const hold = { verdict: 'require_approval' }
const mail = { tools: ['mail_send'] }
const to = (operator: string, value: unknown) => ({ params: [{ param: 'to', operator, value }] })
const by = (...seats: object[]) => ({ ...hold, ...mail, approvers: seats })
const finance = { group: 'finance', count: 1 }
const legal = { group: 'legal', count: 1 }
const ops = { group: 'ops', count: 1 }

describe('a change of a rule', () => {
  const rows: [string, object | null, object | null, RegExp | null, object[]?, number?][] = [
    ['a new rule that denies', null, { ...deny, ...mail }, null],
    ['a new rule that holds', null, { ...hold, ...mail }, null],
    ['a new rule that allows, which changes no verdict', null, { verdict: 'allow', ...mail }, null],
    ['a deleted rule', { ...deny, ...mail }, null, /no other active rule surely denies all calls that `it` denies/],
    ['a deleted rule that another one covers', { ...hold, ...mail }, null, null, [{ ...deny, tools: ['mail_*'] }]],
    ['a deleted rule that a less strict one covers', { ...deny, ...mail }, null, /no other/, [{ ...hold, tools: ['mail_*'] }]],
    ['a rule that becomes a shadow', { ...hold, ...mail }, { ...hold, ...mail, status: 'shadow' }, /holds now/],
    ['a rule that becomes inactive', { ...hold, ...mail }, { ...hold, ...mail, status: 'inactive' }, /holds now/],
    ['a shadow that is deleted', { ...deny, ...mail, status: 'shadow' }, null, null],
    ['a shadow that becomes active', { ...deny, ...mail, status: 'shadow' }, { ...deny, ...mail }, null],
    ['a rule that only allows now', { ...deny, ...mail }, { verdict: 'allow', ...mail }, /denies now/],
    ['a rule that only holds now', { ...deny, ...mail }, { ...hold, ...mail }, /would only be held/],
    ['a rule that denies now', { ...hold, ...mail }, { ...deny, ...mail }, null],
    ['more tools', { ...hold, ...mail }, { ...hold, tools: ['mail_*'] }, null],
    ['fewer tools', { ...hold, tools: ['mail_*'] }, { ...hold, ...mail }, /its new `tools`, `it` may match fewer/],
    ['a longer beginning', { ...deny, ...mail, ...to('startswith', 'a') }, { ...deny, ...mail, ...to('startswith', 'ab') }, /`params`/],
    ['another name', { ...deny, ...mail }, { ...deny, ...mail, name: 'other' }, null],
    ['an owner in place of an admin', { ...hold, ...mail }, { ...hold, ...mail, approver: 'owner' }, null],
    ['an admin in place of an owner', { ...hold, ...mail, approver: 'owner' }, { ...hold, ...mail }, /by 1 admin or owner may be less than one by 1 owner/],
    ['a group in place of an admin', { ...hold, ...mail }, by(finance), /1 member of `finance`/],
    ['one group less', by(finance, legal), by(finance), /may be less/],
    ['one group more', by(finance), by(finance, legal), null],
    ['one group more, where two people of one group are asked', by(finance), by(finance, legal), /may be less/, [], 2],
    ['a new rule for another group, where two people are asked', null, by(legal), /of 2 people, fewer/, [{ ...by(finance), name: 'money' }], 2],
    ['a new rule for another group, where three people are asked and two have seats', null, by(ops), /of 3 people, fewer/, [{ ...by(finance, legal), name: 'money' }], 3],
    ['the same where two people are asked', null, by(ops), null, [by(finance, legal)], 2],
    ['a third group, where three people are asked', by(finance, legal), by(finance, legal, ops), /may be less/, [], 3],
    ['a rule that keeps its calls and seats beside another group', by(legal), { ...by(legal), description: 'other' }, null, [by(finance)], 2],
    ['the same for other tools', null, { ...by(legal), tools: ['file_read'] }, null, [by(finance)], 2],
    ['somebody who is asked later', by(finance), { ...by(finance), escalate: [{ after_seconds: 5_400, to: { group: 'legal' } }] }, /by 1 member of `finance` \(after 90 minutes also a member of `legal`\) may be less than one by 1 member of `finance`$/],
    ['a shorter time', { ...hold, ...mail, expires_after_seconds: 60 }, { ...hold, ...mail, expires_after_seconds: 30 }, null],
    ['a longer time', { ...hold, ...mail, expires_after_seconds: 60 }, { ...hold, ...mail, expires_after_seconds: 0 }, /wait for ever in place of 1 minute/],
    ['a parameter that an approver may edit', { ...hold, ...mail }, { ...hold, ...mail, approver_may_edit: ['text'] }, /an approver may also edit `text`/],
    ['no parameter to edit any more', { ...hold, ...mail, approver_may_edit: ['text'] }, { ...hold, ...mail }, null],
    ['a long time beside a rule without one', null, { ...hold, ...mail, expires_after_seconds: 9_000 }, /wait longer than the usual/, [{ ...hold, match_all: true }]],
    ['the same for more tools', { ...hold, ...mail, expires_after_seconds: 9_000 }, { ...hold, tools: ['mail_send', 'file_read'], expires_after_seconds: 9_000 }, /wait longer than the usual/, [{ ...hold, tools: ['file_read'] }]],
    ['a hold in place of a denial, beside a rule for another group, where two people are asked', { ...deny, ...mail }, { ...hold, ...mail }, /with `money`, of 2 people, fewer would have to be those that `it` asks for/, [{ ...by(finance), name: 'money' }], 2],
    ['the same beside a rule with a long time', { ...deny, ...mail }, { ...hold, ...mail }, /with `slow`, an approval that `it` asks for too may wait longer/, [{ ...hold, ...mail, name: 'slow', expires_after_seconds: 9_000 }]],
    ['a short time beside a rule without one', null, { ...hold, ...mail, expires_after_seconds: 900 }, null, [{ ...hold, match_all: true }]],
  ] // prettier-ignore
  test.each(rows)('%s', (_, before, after, expected, others = [], threshold = 1) => {
    const read = (body: object | null) => (body === null ? null : rule(body))
    const change = { before: read(before), after: read(after), others: others.map(rule) }
    const why = whyLooserRule(change, { ...terms, threshold })
    if (expected === null) expect(why).toEqual([])
    else expect(why.join('\n')).toMatch(expected)
  })

  describe('where calls of agents need a rule that allows them', () => {
    const allow = { verdict: 'allow', applies_to: ['agents'] }
    test.each([
      ['a new rule that allows', null, { ...allow, tools: ['Read'] }, /`it` allows calls of agents/],
      ['a wider one', { ...allow, tools: ['Read'] }, { ...allow, tools: ['Re*'] }, /`it` allows/],
      ['a narrower one', { ...allow, tools: ['Re*'] }, { ...allow, tools: ['Read'] }, null],
      ['a deleted one', { ...allow, tools: ['Read'] }, null, null],
      ['one for workflows', null, { ...allow, applies_to: ['workflows'], ...mail }, null],
      ['one that another covers', null, { ...allow, tools: ['Read'] }, null, [{ ...allow, tools: ['R*'] }]],
      ['a shadow', null, { ...allow, tools: ['Read'], status: 'shadow' }, null],
      [
        'a denial that allows now',
        { ...deny, tools: ['Read'] },
        { ...allow, tools: ['Read'] },
        /`it` allows/,
      ],
    ] as [string, object | null, object | null, RegExp | null, object[]?][])(
      '%s',
      (_, before, after, expected, others = []) => {
        const read = (body: object | null) => (body === null ? null : rule(body))
        const change = { before: read(before), after: read(after), others: others.map(rule) }
        const why = whyLooserRule(change, { ...terms, agentsNeedRule: true }).join('\n')
        expect(why).toMatch(expected ?? /^$/)
      },
    )
  })

  test('a rule that many changes are compared with is read once', () => {
    const others = [rule({ ...deny, tools: ['mail_*'] })]
    const changed = Array.from({ length: 3 }, () => rule({ ...hold, ...mail }))
    const read = jest.spyOn(facts.names, 'issue')
    for (const after of changed) expect(whyLooserRule({ before: null, after, others }, terms)).toEqual([])
    expect(read.mock.calls.filter(([glob]) => glob === 'mail_*')).toHaveLength(1)
    read.mockRestore()
  })

  test('a damaged rule proves nothing', () => {
    const damaged = { ...rule({ ...deny, ...mail }), tools: 'mail_send' } as never
    expect(whyLooserRule({ before: damaged, after: null, others: [] }, terms)).toHaveLength(1)
    const others = [damaged]
    expect(whyLooserRule({ before: rule({ ...deny, ...mail }), after: null, others }, terms)).toHaveLength(1)
  })
})

test('what counts as strict as before never decides a call less strictly', () => {
  const seen = { strict: 0, looser: 0, held: 0, kept: 0 }
  const seats = fc.array(
    fc.constantFrom<object>({}, {}, { approver: 'owner' }, { approvers: [finance] }, { approvers: [finance, legal] }, { approver: { group: 'legal' } }, { approvals_needed: 2 }, { expires_after_seconds: 60 }, { approver_may_edit: ['text'] }), // prettier-ignore
    { minLength: 16, maxLength: 16 },
  )
  const cases = fc.tuple(withWiderRules, changes, fc.nat(15), seats, fc.constantFrom('change', 'swap', 'delete', 'create'), fc.integer({ min: 1, max: 3 }), fc.boolean()) // prettier-ignore
  fc.assert(
    fc.property(cases, ([{ rules, calls }, change, pick, terms_, how, threshold, agentsNeedRule]) => {
      const held = rules.map((each, index) =>
        each.verdict === 'require_approval' ? { ...each, ...terms_[index % 16] } : each,
      )
      const at = pick % held.length
      const one = held[at] as StoredRule
      const next = held[(at + 1) % held.length] as StoredRule
      const after = {
        change: wider(one, change),
        swap: { ...next, id: one.id },
        delete: null,
        create: one,
      }[how]
      const before = how === 'create' ? null : one
      const others = held.filter((each) => each !== one && (how !== 'swap' || each !== next))
      const why = whyLooserRule({ before, after, others }, { ...terms, threshold, agentsNeedRule })
      if (why.length > 0) {
        seen.looser += 1
        return
      }
      seen.strict += 1
      const policy = (more: RuleBody | null) =>
        compilePolicy({
          rules: [...others, ...(more === null ? [] : [{ ...more, id: 'it' }])],
          labelRules: [],
          approvalsEnabled: true,
          agentAccess: agentsNeedRule ? 'deny' : 'allow',
        })
      const [old, present] = [policy(before), policy(after)]
      for (const call of calls) {
        const [was, is] = [decide(old, call), decide(present, call)]
        if (was.verdict === 'require_approval') seen.held += 1
        if (was.verdict !== 'allow' && is.verdict !== 'allow') seen.kept += 1
        expect([before, after, others, call, is, isDecidedAsStrictly(is, was, { ...terms, threshold })]).toEqual([before, after, others, call, is, true]) // prettier-ignore
      }
    }),
    { numRuns: 600 },
  )
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50)
})

describe('a change of a label rule', () => {
  const label = (body: object) => labelRuleInput.parse({ name: 'it', add_labels: ['secret'], ...body })
  const escape = rule({ ...deny, labels: { none_of: ['secret'] }, name: 'escape' })
  const rows: [string, object | null, object | null, RegExp | null, object[]?, RuleBody[]?][] = [
    ['a new one', null, mail, null],
    ['a deleted one', mail, null, /may stay without the label/],
    ['a deleted one that another one covers', mail, null, null, [{ tools: ['mail_*'], name: 'all' }]],
    ['one that becomes inactive', mail, { ...mail, status: 'inactive' }, /may stay/],
    ['an inactive one that is deleted', { ...mail, status: 'inactive' }, null, null],
    ['one more label', mail, { ...mail, add_labels: ['secret', 'more'] }, null],
    ['another label', mail, { ...mail, add_labels: ['more'] }, /may stay/],
    ['fewer tools', { tools: ['mail_*'] }, mail, /may stay/],
    ['a label with which a call escapes a rule', null, mail, /`escape` would no longer match data labelled `secret`/, [], [escape]],
    ['a label by which another label rule adds that one', null, { ...mail, add_labels: ['more'] }, /`escape` would no longer/, [{ labels: { any_of: ['more'] } }], [escape]],
    ['the same by two label rules, one of which asks where a parameter comes from', null, { ...mail, add_labels: ['more'] }, /`escape` would no longer/, [{ labels: { all_of: ['next'] } }, { add_labels: ['next'], ...to('from_label', ['more']) }], [escape]],
    ['a label that another label rule excludes', null, mail, /`other` would no longer/, [{ name: 'other', labels: { none_of: ['secret'] } }]],
  ] // prettier-ignore
  test.each(rows)('%s', (_, before, after, expected, others = [], rules = []) => {
    const read = (body: object | null) => (body === null ? null : label(body))
    const change = { before: read(before), after: read(after), others: others.map(label) }
    const why = whyLooserLabelRule(change, rules, terms)
    if (expected === null) expect(why).toEqual([])
    else expect(why.join('\n')).toMatch(expected)
  })
})

describe('a change of the sign-in', () => {
  const none = { role_map: {}, group_map: {} }
  const body = (more: Partial<SignInBody> = {}): SignInBody => ({
    kind: 'oidc', issuer: 'https://login', client_id: 'c', sso_url: null, certificates: ['one'], domains: ['acme.com'],
    groups_claim: 'groups', role_map: { it: 'admin', all: 'viewer' }, group_map: { cn: 'finance' }, default_role: 'viewer',
    checks_factor: false, ...more,
  }) // prettier-ignore
  const rows: [string, Partial<SignInBody>, Partial<SignInBody>, RegExp | null][] = [
    ['nothing', {}, {}, null],
    ['another issuer', {}, { issuer: 'https://other' }, /whoever runs the provider/],
    ['another client', {}, { client_id: 'd' }, /whoever runs/],
    ['another kind', {}, { kind: 'saml' }, /whoever runs/],
    ['another address', {}, { sso_url: 'https://other' }, /whoever runs/],
    ['one more certificate', {}, { certificates: ['one', 'two'] }, /whoever runs/],
    ['one certificate less', { certificates: ['one', 'two'] }, {}, null],
    ['one more domain', {}, { domains: ['acme.com', 'b.com'] }, /address of `b.com`/],
    ['one domain less', { domains: ['acme.com', 'b.com'] }, {}, null],
    ['a lower role', {}, { role_map: { it: 'member', all: 'viewer' } }, null],
    ['one group less', {}, { role_map: { it: 'admin' } }, null],
    ['a higher role', {}, { role_map: { it: 'owner' } }, /group `it` could give the role `owner`/],
    ['one more group', {}, { role_map: { it: 'admin', x: 'member' } }, /group `x` could give/],
    ['one more group, with no more than everybody gets', {}, { role_map: { it: 'admin', x: 'viewer' } }, null],
    ['a first map', none, { group_map: {} }, /group `it` could give/],
    ['no map', {}, { role_map: {} }, /would stay when the provider takes it away/],
    ['no claim', {}, { groups_claim: null }, /would stay when/],
    ['another claim', {}, { groups_claim: 'roles' }, /group `all` could give/],
    ['another claim that nothing reads', none, { ...none, groups_claim: 'roles' }, null],
    ['a group elsewhere', {}, { group_map: { cn: 'legal' } }, /into a group/],
    ['a group nowhere', {}, { group_map: {} }, /leave them in it/],
    ['a role for everybody', { default_role: null }, {}, /no role could get the role `viewer`/],
    ['no role for everybody', {}, { default_role: null }, null],
    ['a factor that always counts', {}, { checks_factor: true }, /second factor/],
    ['a factor that counts only if named', { checks_factor: true }, {}, null],
  ] // prettier-ignore
  test.each(rows)('%s', (_, before, after, expected) => {
    const why = whyLooserSignIn(body(before), body(after))
    if (expected === null) expect(why).toEqual([])
    else expect(why.join('\n')).toMatch(expected)
  })

  test('a first provider', () => {
    expect(whyLooserSignIn(null, body({ ...none, default_role: null }))).toHaveLength(2)
  })
})
