import { rulesPath } from '../../contract/pages.ts'
import {
  organizationId,
  type Form,
  type PersonsVisit,
  type Result,
  type RuleBody,
  type RuleView,
} from '../visit.ts'
import { changedSince, empty, onceOf, Seen, type Labels } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { nothingDone } from './waiting.tsx'
import { Words } from './words.tsx'

/* What an admin does with a rule right in the list. It unfolds the question, so it needs no script. */

type Status = RuleBody['status']
export type RuleKind = 'rule' | 'label_rule'

const acts: Readonly<Record<Status, string>> = {
  active: 'Make it active',
  shadow: 'Only record (shadow)',
  inactive: 'Switch it off',
}

export const ruleResults: Labels = {
  starter: 'The rules for agents are in the list. Those that were there already stay as they are.',
  active: 'The rule is active: it decides from the next call on.',
  shadow: 'The rule is in shadow: it only records what it would decide.',
  inactive: 'The rule is off: it decides nothing.',
  delete: 'The rule is deleted. Its versions stay, and can be restored on its page.',
}

export function RuleActs(props: {
  readonly visit: PersonsVisit
  readonly kind: RuleKind
  readonly rule: Pick<RuleView, 'id' | 'name' | 'status' | 'updated_at'>
}) {
  const { visit, kind, rule } = props
  const others = (['active', 'shadow', 'inactive'] as const).filter(
    // A rule that labels has no shadow: nothing would be recorded.
    (status) => status !== rule.status && (kind === 'rule' || status !== 'shadow'),
  )
  return (
    <PostForm action={rulesPath} token={visit.token}>
      <OnceField />
      <input type="hidden" name="kind" value={kind} />
      <input type="hidden" name="rule" value={rule.id} />
      <Seen value={rule.updated_at} filled={empty} />
      <details class="ask">
        <summary class="button">
          Change…
          <span class="unseen">
            {' '}
            <Words text={rule.name} most={80} />
          </span>
        </summary>
        <div class="note stack">
          <p>It holds from the next call on. What makes rules less strict may wait for a second person.</p>
          {others.map((status) => (
            <button name="action" value={status}>
              {acts[status]}
            </button>
          ))}
          <button name="action" value="delete" class="danger">
            Delete it
          </button>
        </div>
      </details>
    </PostForm>
  )
}

const isStatus = (given: string): given is Status => Object.hasOwn(acts, given)

/** Refuses if somebody has changed the rule after the page was shown. */
export async function actOnRule(visit: PersonsVisit, form: Form): Promise<Result<unknown>> {
  const { api } = visit
  const params = { id: organizationId(visit), rule: form.get('rule') ?? '' }
  const action = form.get('action') ?? ''
  const isLabel = form.get('kind') === 'label_rule'
  const present = await api.call(
    isLabel ? 'GET /organizations/{id}/label-rules/{rule}' : 'GET /organizations/{id}/rules/{rule}',
    { params },
  )
  if (!present.ok) return present
  const changed = changedSince(form, present.body.updated_at)
  if (changed !== null) return changed
  if (action === 'delete')
    return api.call(
      isLabel ? 'DELETE /organizations/{id}/label-rules/{rule}' : 'DELETE /organizations/{id}/rules/{rule}',
      { params },
    )
  if (!isStatus(action)) return nothingDone
  return api.call(
    isLabel ? 'PATCH /organizations/{id}/label-rules/{rule}' : 'PATCH /organizations/{id}/rules/{rule}',
    { params, body: { status: action }, ...onceOf(form) },
  )
}
