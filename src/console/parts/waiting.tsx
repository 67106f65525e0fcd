import type { Role } from '../../policy/types.ts'
import { decidedBy, hasRole, isDecider, verbOf, type PersonsVisit, type WaitingView } from '../visit.ts'
import { itemNumber } from './items.tsx'
import { Confirm } from './form.tsx'
import { Live } from './layout.tsx'
import { callFields, OutcomeChoices, WhereToLook } from './outcome.tsx'
import type { RunShown } from './steps.tsx'
import { Badge } from './state.tsx'
import { Time } from './time.tsx'
import { capital, LongText, Message, Words } from './words.tsx'

const most = 20

/** What waits for a person. A row offers the choices, or says who can decide. */
export function Waiting(props: {
  readonly run: Pick<RunShown, 'id' | 'organization_id' | 'waiting_for'>
  readonly role: Role | null
  readonly visit: PersonsVisit
  /** Each sentence says what a waiting call would do. The key is the id of the approval. */
  readonly sentences: ReadonlyMap<string, string>
}) {
  const { run, role, visit, sentences } = props
  const { organization_id, waiting_for } = run
  const version = [
    waiting_for.length,
    ...waiting_for
      .slice(0, most)
      .map(
        (each) =>
          `${each.approval_id ?? ''}${each.step_id ?? ''}${each.item_index ?? ''}.${each.attempt ?? ''}`,
      ),
  ].join('/')
  return (
    <Live name="waiting" version={version}>
      {waiting_for.length === 0 ? null : (
        <section class="card waits" aria-labelledby="waits">
          <h2 id="waits">What waits for a person</h2>
          <ul class="inbox">
            {waiting_for.slice(0, most).map((each) =>
              each.approval_id === null ? (
                <Unknown waiting={each} run={run} role={role} visit={visit} />
              ) : (
                <Held
                  waiting={each}
                  sentence={sentences.get(each.approval_id)}
                  // A viewer can open only what a group of theirs decides.
                  mayOpen={hasRole(role, 'member') || isDecider(visit, { ...each, organization_id })}
                  now={visit.now}
                />
              ),
            )}
          </ul>
          {waiting_for.length > most ? (
            <p class="quiet">{`and ${(waiting_for.length - most).toLocaleString('en')} more`}</p>
          ) : null}
          <ManyUnknown run={run} role={role} visit={visit} />
        </section>
      )}
    </Live>
  )
}

/** A step (`step send, item 3`, counted from 1), a call of a tool, or the whole run. */
function Place({ waiting: { step_id, item_index, tool } }: { waiting: WaitingView }) {
  if (step_id === null)
    return tool === null ? (
      'the whole run'
    ) : (
      <>
        a call of{' '}
        <code>
          <Words text={tool} most={100} />
        </code>
      </>
    )
  return (
    <>
      step{' '}
      <code>
        <Words text={step_id} most={100} />
      </code>
      {item_index === null ? null : `, item ${itemNumber(item_index)}`}
    </>
  )
}

/** Without a sentence, names the step, the tool or the run. */
function Title({ waiting, sentence, mayOpen }: Omit<HeldProps, 'now'>) {
  const words =
    sentence === undefined ? (
      <>
        {waiting.kind === 'ask' ? 'Question' : waiting.kind === 'revision' ? 'Changes' : 'Approval'} of{' '}
        <Place waiting={waiting} />
      </>
    ) : (
      <Words text={sentence} />
    )
  return mayOpen ? (
    <a class="item-link" href={`/console/approvals/${waiting.approval_id ?? ''}`}>
      {words}
    </a>
  ) : (
    <strong>{words}</strong>
  )
}

interface HeldProps {
  readonly waiting: WaitingView
  readonly sentence: string | undefined
  readonly mayOpen: boolean
  readonly now: Date
}

function Held({ now, ...props }: HeldProps) {
  const { kind, approvers, cannot_be_given: why, expires_at, rule_name, since, step_id } = props.waiting
  const { changes_requested: changes } = props.waiting
  // Without a sentence, the title already names the step.
  const place = props.sentence === undefined || step_id === null ? null : <Place {...props} />
  return (
    <li class="plain-item stack">
      <p class="split">
        <Title {...props} />
        <Badge tone="hold" word={capital(decidedBy(approvers, verbOf(kind)))} />
      </p>
      <p class="quiet small">
        {place === null ? null : <>In {place} · </>}
        {rule_name === null ? null : (
          <>
            Rule{' '}
            <strong>
              <Words text={rule_name} most={200} />
            </strong>{' '}
            ·{' '}
          </>
        )}
        {kind === 'ask' ? 'Asked' : 'Held'} <Time at={since} now={now} />
        {expires_at === null ? null : (
          <>
            {' '}
            · expires <Time at={expires_at} now={now} />
          </>
        )}
      </p>
      {changes === null ? null : (
        <div class="vote">
          <Words text={changes.email} most={100} /> asks for changes:
          <blockquote>
            <LongText text={changes.comment} />
          </blockquote>
        </div>
      )}
      {why === null ? null : (
        <p class="note">
          <Message text={why} />
        </p>
      )}
    </li>
  )
}

function Unknown(props: {
  waiting: WaitingView
  run: Pick<RunShown, 'id'>
  role: Role | null
  visit: PersonsVisit
}) {
  const { waiting, run, role, visit } = props
  const { attempt, item_index: item, since, tool, sought } = waiting
  return (
    <li class="plain-item stack">
      <p class="split">
        <strong>
          What became of <Place waiting={waiting} />?
        </strong>
        <Badge tone="warn" word="Outcome unknown" />
      </p>
      <p>
        The call of{' '}
        <code>
          <Words text={tool ?? 'a tool'} most={100} />
        </code>{' '}
        was sent <Time at={since} now={visit.now} />
        {attempt === null || attempt < 2 ? null : ` (attempt ${attempt})`}, and no answer came. Nobody knows
        whether it happened.
      </p>
      {sought === null ? null : <WhereToLook sought={sought} />}
      <Choices
        run={run}
        role={role}
        visit={visit}
        fields={callFields(waiting)}
        of={item === null ? '' : `, item ${itemNumber(item)}`}
      />
    </li>
  )
}

/** One form for each group of items of one step and attempt whose outcome is unknown. */
function ManyUnknown(props: {
  run: Pick<RunShown, 'id' | 'waiting_for'>
  role: Role | null
  visit: PersonsVisit
}) {
  const { run, role, visit } = props
  const groups = new Map<string, { step: string; attempt: number; count: number }>()
  for (const { kind, step_id: step, item_index, attempt } of run.waiting_for) {
    if (kind !== 'resolution' || step === null || item_index === null || attempt === null) continue
    const group = groups.get(`${step}#${attempt}`) ?? { step, attempt, count: 0 }
    groups.set(`${step}#${attempt}`, { ...group, count: group.count + 1 })
  }
  const several = [...groups.values()].filter(({ count }) => count > 1)
  return several.slice(0, 5).map(({ step, attempt, count }) => (
    <div class="note stack">
      <p>
        <strong>{`All ${count.toLocaleString('en')} items of step `}</strong>
        <strong>
          <Words text={step} most={100} />
        </strong>{' '}
        whose outcome is unknown{attempt < 2 ? null : ` after attempt ${attempt}`}
      </p>
      <Choices
        run={run}
        role={role}
        visit={visit}
        fields={[
          ['step', step],
          ['attempt', String(attempt)],
          ['all', 'true'],
        ]}
        question="Only if the same is true of all of them:"
        of={`, all items of ${step.slice(0, 60)}${attempt < 2 ? '' : `, attempt ${attempt}`}`}
      />
    </div>
  ))
}

function Choices(props: {
  run: Pick<RunShown, 'id'>
  role: Role | null
  visit: PersonsVisit
  fields: readonly (readonly [string, string])[]
  question?: string
  of: string
}) {
  const { run, role, visit, ...choices } = props
  return hasRole(role, 'admin') ? (
    <OutcomeChoices runId={run.id} token={visit.token} {...choices} />
  ) : (
    <p class="quiet">An admin or owner says what became of it.</p>
  )
}

/** Asks for a reason before it ends something. */
export function Ask({ name, isOffered, ...form }: AskProps) {
  return (
    <Live name={name} version={String(isOffered)}>
      {isOffered ? (
        <Confirm {...form}>
          <label for="reason">Reason</label>
          <textarea id="reason" name="reason" rows={2} maxlength={500} />
        </Confirm>
      ) : null}
    </Live>
  )
}

type AskProps = { name: string; isOffered: boolean } & Omit<Parameters<typeof Confirm>[0], 'children'>

export const reasonOf = (form: URLSearchParams): { readonly reason?: string } => {
  const reason = (form.get('reason') ?? '').replaceAll('\r\n', '\n').trim()
  return reason === '' ? {} : { reason }
}

/** For a form that was sent without a known button. */
export const nothingDone = {
  ok: false,
  status: 422,
  code: 'validation_error',
  message: 'Nothing was done: press one of the buttons.',
} as const
