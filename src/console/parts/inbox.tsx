import type { AnswerOf } from '../../api/routes/index.ts'
import type { ComponentChild } from 'preact'
import type { WaitingSummary } from '../visit.ts'
import { traitsOf, whoDecides, type Chooser, type PersonsVisit, type ApprovalView } from '../visit.ts'
import { Message, whoOf, Words } from './words.tsx'
import { inboxPath, organizationsPath } from '../../contract/pages.ts'
import { InboxFilters, InboxHead, pagesOf } from './inbox-head.tsx'
import { Pager, addressOf } from './list.tsx'
import { itemNumber, inItemOrder } from './items.tsx'
import { Live, OnceField, PostForm } from './layout.tsx'
import type { JsonObject } from '../../policy/types.ts'
import { asText } from './inputs.tsx'
import { callFields, OutcomeChoices, WhereToLook } from './outcome.tsx'
import { sentenceOf, Asks, plainTitle, Badge, Labels, effectTitle, Icon, Risk } from './state.tsx'
import { Moment, Time } from './time.tsx'
import { visible } from '../../policy/readers/look-alikes.ts'

export interface Done {
  readonly words: string
  /** Refused votes, or the approvals that prevented all votes. */
  readonly failed: readonly { readonly id: string; readonly message: string }[]
  readonly kept: Kept | null
}

interface InboxProps {
  readonly chooser: Chooser
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
  /** In the whole organization; null if unknown. */
  readonly waiting: WaitingSummary | null
  readonly next: string | null
  /** null if the filters leave out such calls, on later pages, and if they could not be read. */
  readonly unknown: AnswerOf<'GET /approvals'> | null
  readonly done: Done | null
}

export function Inbox({ chooser, chosen, items, waiting, next, unknown, done }: InboxProps) {
  const { visit } = chooser
  return (
    <article class="page">
      <InboxHead visit={visit} chosen={chosen} title="Waiting for a decision">
        {waiting === null ? null : (
          <Count total={waiting.total} isAfter={visit.person.organization !== null} />
        )}
      </InboxHead>
      {done === null ? null : <Told done={done} items={items} />}
      <DecidesFor visit={visit} />
      {visit.person.organizations.every(({ personal }) => personal) ? (
        <p class="note">
          You are in no organization with others. <a href={organizationsPath}>Make one</a>, or ask an owner
          for an invitation.
        </p>
      ) : null}
      {unknown === null ? null : <Unknown unknown={unknown} chosen={chosen} visit={visit} />}
      <InboxFilters visit={visit} chosen={chosen} waiting={waiting} items={items} />
      {chosen['kind'] === 'resolution' ? null : (
        <Waiting chooser={chooser} chosen={chosen} items={items} next={next} kept={done?.kept ?? null} />
      )}
    </article>
  )
}

/** Tells a deputy whose place they take. */
const DecidesFor = ({ visit: { person } }: { visit: PersonsVisit }) =>
  person.organization?.deputy_for.map(({ email, until }) => (
    <p class="note">
      <Words text={email} most={254} /> is away until <Moment at={until} />, and has named you as deputy: you
      can decide what they could decide.
    </p>
  ))

/** In the whole organization, whatever the filters. */
const Count = ({ total, isAfter }: { readonly total: number; readonly isAfter: boolean }) => (
  <span data-live="count" data-version={String(total)}>
    {isAfter && total > 0 ? ' · ' : null}
    {total === 0 ? null : `${total.toLocaleString('en')} ${total === 1 ? 'waits' : 'wait'}`}
  </span>
)

function Told({ done: { words, failed, kept }, items }: { done: Done; items: readonly ApprovalView[] }) {
  return (
    <div {...(kept === null ? { class: 'note', role: 'status' } : { class: 'alert', role: 'alert' })}>
      <p>{words}</p>
      <ul>
        {failed.map(({ id, message }) => {
          const item = items.find((each) => each.id === id)
          return (
            <li>
              <a href={`/console/approvals/${id}`}>
                {item === undefined ? <Words text={id} /> : <Asks approval={item} />}
              </a>
              : <Message text={message} most={500} />
            </li>
          )
        })}
      </ul>
    </div>
  )
}

interface UnknownProps {
  readonly unknown: AnswerOf<'GET /approvals'>
  readonly chosen: Readonly<Record<string, string>>
  readonly visit: PersonsVisit
}

/** The element is on the page even if there are no such calls, so that the script can replace it. */
function Unknown(props: UnknownProps) {
  const { data, next_cursor: next } = props.unknown
  const version = [...data.map(({ id, attempt }) => `${id}.${attempt ?? ''}`), next ?? ''].join(' ')
  return (
    <Live name="unknown" version={version} data-poll="">
      {data.length === 0 && props.chosen['unknown'] === undefined ? null : <Calls {...props} />}
    </Live>
  )
}

function Calls({ unknown, chosen, visit }: UnknownProps) {
  const role = visit.person.organization?.role
  const mayChoose = role === 'admin' || role === 'owner'
  const { cursor: _, ...others } = chosen
  return (
    <section class="stack" aria-labelledby="unknown">
      <h2 id="unknown">Nobody knows whether these happened</h2>
      <ul class="inbox">
        {unknown.data.map((each) => (
          <li class="plain-item unknown stack">
            <p class="split">
              <a class="item-link" href={`/console/runs/${each.run_id ?? ''}#waits`}>
                <Words text={sentenceOf(each)} />
              </a>
              <Badge tone="warn" word="Outcome unknown" />
            </p>
            <p class="quiet small">
              <Words text={whoOf(each.requester_email ?? each.requested_by)} />
              {each.workflow_name === null ? null : (
                <>
                  {' '}
                  · <Words text={each.workflow_name} most={120} />
                </>
              )}
              {each.step_id === null ? null : (
                <>
                  , step <Words text={each.step_id} />
                </>
              )}
              {each.item_index === null ? null : `, item ${itemNumber(each.item_index)}`} · sent{' '}
              <Time at={each.created_at} now={visit.now} />
            </p>
            {each.sought === null ? null : <WhereToLook sought={each.sought} />}
            {mayChoose ? (
              <details id={`became-${each.id}`}>
                <summary class="button">What became of it?</summary>
                <OutcomeChoices runId={each.run_id ?? ''} token={visit.token} fields={callFields(each)} />
              </details>
            ) : (
              <p class="quiet small">An admin or owner says what became of it.</p>
            )}
          </li>
        ))}
      </ul>
      <Pager
        path={inboxPath}
        chosen={others}
        cursor="unknown"
        next={unknown.next_cursor}
        words={{ first: 'First of these', next: 'More of these' }}
      />
    </section>
  )
}

interface Kept {
  readonly ids: readonly string[]
  readonly comment: string
}

/** The element is on the page even if no approval waits, so that the script can replace it. */
function Waiting(props: WaitingProps) {
  const { chosen, next } = props
  const items = inItemOrder(props.items)
  const version = [...items.map(({ id, votes }) => `${id}${votes.length}`), next ?? ''].join(' ')
  return (
    <Live name="waiting" version={version} data-poll="">
      {items.length > 0 ? (
        <Form {...props} items={items} />
      ) : (
        <Nothing isFiltered={Object.keys(chosen).some((name) => name !== 'order')} />
      )}
    </Live>
  )
}

const Nothing = ({ isFiltered }: { isFiltered: boolean }) => (
  <div class="card empty">
    {isFiltered ? (
      <>
        <p>
          <strong>Nothing that waits matches the filter.</strong>
        </p>
        <p>
          <a href={inboxPath}>Show all that waits</a>
        </p>
      </>
    ) : (
      <>
        <p>
          <Icon name="good" /> <strong>Nothing waits for a decision.</strong>
        </p>
        <p class="quiet">A call that a rule holds stands here until somebody decides it.</p>
      </>
    )}
  </div>
)

interface WaitingProps {
  readonly chooser: Chooser
  /** The filters from the page's address. */
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
  readonly next: string | null
  readonly kept: Kept | null
}

function Form({ chooser, chosen, items, next, kept }: WaitingProps) {
  const { visit } = chooser
  const rows = items.map((approval) => ({
    approval,
    instead: whoDecides(chooser, approval),
    isChosen: kept?.ids.includes(approval.id) === true,
  }))
  const { unknown: _, ...others } = chosen
  return (
    <div class="page">
      <PostForm action={addressOf(inboxPath, chosen)} token={visit.token} class="page">
        <OnceField />
        <ul class="inbox">
          {rows.map((row) => (
            <Item {...row} isOwn={row.approval.requested_by === visit.person.user.id} now={visit.now} />
          ))}
        </ul>
        {rows.every(({ instead }) => instead !== null) ? null : (
          <Together kept={kept} hasSteps={items.some(({ kind }) => kind === 'step' || kind === 'repeat')} />
        )}
      </PostForm>
      <Pager path={inboxPath} chosen={others} cursor="cursor" next={next} words={pagesOf(chosen)} />
      <Keys />
    </div>
  )
}

function Together({ kept, hasSteps }: { kept: Kept | null; hasSteps: boolean }) {
  return (
    <details class="card bulk" open={kept !== null}>
      <summary>
        Decide the chosen ones together
        <span data-chosen="" />
      </summary>
      <div class="stack">
        <p class="quiet small">
          Only calls of one tool, held by one rule and with the same labels, can be approved together. Each
          gets a vote of its own.
        </p>
        <label for="comment">Comment</label>
        <textarea id="comment" name="comment" rows={2} maxlength={2000}>
          {kept?.comment ?? ''}
        </textarea>
        <p class="alert" data-mixed="" hidden>
          The chosen calls differ in tool, rule or labels, so they cannot be approved together.
        </p>
        <div class="buttons">
          <button name="decision" value="approve" class="primary">
            Approve the chosen
          </button>
          <button name="decision" value="reject" class="danger">
            Reject the chosen
          </button>
        </div>
        {hasSteps ? (
          <p class="quiet small">
            To reject a call of a run also ends the run: its other held calls are withdrawn, unless the step
            has <code>on_error: continue</code>. To reject a call of an agent ends only that call.
          </p>
        ) : null}
      </div>
    </details>
  )
}

export const Asker = ({ approval }: { approval: ApprovalView }) => (
  <span>
    <Words text={whoOf(approval.requester_email ?? approval.requested_by)} />
    {approval.agent_name === null ? null : (
      <>
        {' '}
        with <Words text={approval.agent_name} most={80} />
      </>
    )}
  </span>
)

export function Place({
  approval: { kind, step_id, item_index, rule_name, workflow_name: workflow },
}: {
  approval: ApprovalView
}) {
  // The title already names the workflow of a whole run. A setting holds it, and no rule.
  if (kind === 'run') return <span>A setting holds such runs</span>
  const step = [
    workflow === null ? null : <Words text={workflow} most={120} />,
    step_id === null ? null : (
      <>
        , step <Words text={step_id} />
      </>
    ),
    item_index === null ? null : `, item ${itemNumber(item_index)}`,
  ]
  if (workflow === null && rule_name === null) return null
  return (
    <span>
      {step}
      {rule_name === null ? null : (
        <>
          {workflow === null ? 'Rule ' : ' · Rule '}
          <strong>
            <Words text={rule_name} most={120} />
          </strong>
        </>
      )}
    </span>
  )
}

/** The first value that a question shows, because several questions can have one title. */
function FirstShown({ approval: { kind, params = {} } }: { readonly approval: ApprovalView }) {
  const [first] = kind === 'ask' ? Object.entries(params as JsonObject) : []
  if (first === undefined) return null
  const [name, value] = first
  return (
    <p class="small">
      <Words text={name} most={80} />: <Words text={asText(value)} most={80} kind="text" />
    </p>
  )
}

function Item(props: {
  readonly approval: ApprovalView
  /** Who decides; null if the person may choose this approval. */
  readonly instead: string | null
  readonly isChosen: boolean
  /** Whether the person asked for it. */
  readonly isOwn: boolean
  readonly now: Date
}) {
  const { approval, instead, isChosen, isOwn, now } = props
  const { id, expires_at, side_effect } = approval
  return (
    <li class={instead === null ? 'item' : 'item elsewhere'}>
      {instead !== null ? null : (
        <label class="choose">
          <input
            type="checkbox"
            name="id"
            value={id}
            checked={isChosen}
            id={`choose-${id}`}
            data-alike={JSON.stringify(traitsOf(approval))}
            aria-label={`Choose ${visible(plainTitle(approval)).slice(0, 100)}`}
          />
        </label>
      )}
      <div class="item-words">
        <a href={`/console/approvals/${id}`} class="item-link">
          <Asks approval={approval} />
        </a>
        <FirstShown approval={approval} />
        <div class="item-facts quiet small">
          <Asker approval={approval} />
          <Place approval={approval} />
          <span>
            Asked <Time at={approval.created_at} now={now} />
            {expires_at === null ? null : (
              <>
                {' '}
                · expires <Time at={expires_at} now={now} />
              </>
            )}
          </span>
          {instead === null ? null : <strong>{instead}</strong>}
          {isOwn ? (
            <a class="above" href={`/console/approvals/${id}#withdraw`}>
              withdraw it…
            </a>
          ) : null}
        </div>
        <p class="badges">
          {approval.kind === 'ask' ? (
            <Badge tone="hold" word="Question" />
          ) : approval.kind === 'revision' ? (
            <Badge tone="hold" word="Changes requested" />
          ) : (
            <Risk level={approval.risk.level} />
          )}
          {side_effect === null ? null : <span class="small">{effectTitle(side_effect)}</span>}
          {approval.labels.length === 0 ? null : <Labels labels={approval.labels} most={5} />}
        </p>
      </div>
    </li>
  )
}

function Keys() {
  const key = (name: string): ComponentChild => <kbd>{name}</kbd>
  return (
    <p class="quiet small keys">
      Keys: {key('j')} and {key('k')} move, {key('a')} opens it at Approve, {key('r')} at Reject. No key
      decides alone.
    </p>
  )
}
