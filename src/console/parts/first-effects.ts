import type { AnswerOf } from '../../api/routes/index.ts'
import { counted } from '../../policy/units.ts'
import { organizationId, type PersonsVisit, type WaitingSummary } from '../visit.ts'

/* What a change of a setting would do to what is there now: a sentence before the button that saves it. */

type Effects = readonly (readonly [setting: string, sentence: string])[]

/** By the setting's name. Only owners may read all of it, and only they change settings. */
export async function firstEffects(visit: PersonsVisit): Promise<ReadonlyMap<string, string>> {
  const params = { id: organizationId(visit) }
  const query = { limit: '200' }
  const [summary, members, policies] = await Promise.all([
    visit.api.call('GET /organizations/{id}/approvals/summary', { params }),
    visit.api.call('GET /organizations/{id}/members', { params, query }),
    visit.api.call('GET /organizations/{id}/tool-policies', { params, query }),
  ])
  return new Map([
    ...(summary.ok ? ofApprovals(summary.body) : []),
    ...(members.ok ? ofThreshold(members.body) : []),
    ...(members.ok ? ofMembers(members.body) : []),
    ...(policies.ok ? ofPolicies(policies.body) : []),
  ])
}

function ofApprovals({ total }: WaitingSummary): Effects {
  const waiting = total === 1 ? '1 approval waits' : `${counted(total, 'approval')} wait`
  const atOnce = `It holds at once, also for what waits: ${waiting} now.`
  return [
    [
      'approvals_enabled',
      `Now ${waiting}. While approvals are off, what is approved is denied all the same when it is called.`,
    ],
    ['allow_self_approval', atOnce],
  ]
}

/** Members of a group count only where a rule names the group. */
function ofThreshold({ data, next_cursor: next }: AnswerOf<'GET /organizations/{id}/members'>): Effects {
  const deciding = data.filter(({ role }) => role === 'admin' || role === 'owner').length
  if (next !== null) return [['approval_threshold', 'It holds at once, also for what waits.']]
  const people = deciding === 1 ? 'only 1 person can decide' : `only ${deciding} people can decide`
  return [
    [
      'approval_threshold',
      `It holds at once, also for what waits. Now ${people}: admins and owners, and who a rule names through a group. An approval that needs more people than there are can never be given.`,
    ],
  ]
}

function ofMembers({ data, next_cursor: next }: AnswerOf<'GET /organizations/{id}/members'>): Effects {
  const people = data.length === 1 ? 'the 1 person' : `the ${data.length} people`
  const all = next === null ? people : `${people} who joined first`
  const factorless = data.filter(({ second_factor: has }) => !has).length
  const beside = data.filter(({ company_sign_in: has }) => !has).length
  const owners = data.filter(({ role }) => role === 'owner').length
  return [
    [
      'require_mfa',
      `Of ${all}, ${factorless} ${factorless === 1 ? 'has' : 'have'} no second factor. Once it is required, they get in only after they add one, and keys that were made without one stop until their person confirms them. Agents go on asking.`,
    ],
    [
      'require_sso',
      `Of ${all}, ${beside} never signed in with the provider. Once it is required, their password opens nothing here. Keys go on.`,
    ],
    [
      'loosening',
      `What only owners change needs a second owner. There ${owners === 1 ? 'is 1 owner' : `are ${owners} owners`} now.`,
    ],
  ]
}

function ofPolicies({ data, next_cursor: next }: AnswerOf<'GET /organizations/{id}/tool-policies'>): Effects {
  const allowed = new Set(data.flatMap((each) => (each.allowed === true ? [each.tool_name] : []))).size
  const count = `${counted(allowed, 'tool')}${next === null ? '' : ' or more'}`
  return [
    [
      'default_tool_access',
      `Policies allow ${count} now, and overrides of roles may allow others. Once tools without a policy are denied, nobody can call any other tool, and a run with one is refused.`,
    ],
  ]
}
