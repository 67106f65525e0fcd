import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import { webhookPath, webhooksPath } from '../../contract/pages.ts'
import { Cause, eventOptions, eventWords } from '../parts/events.tsx'
import { Checks, empty, Field, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { Empty, Pager, Table } from '../parts/list.tsx'
import { secretPage } from '../parts/secret.tsx'
import { Badge, type Tone } from '../parts/state.tsx'
import { Moment, Time } from '../parts/time.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, type Form, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/webhooks`: which programs hear of events, for admins. Owners make and change them. */

export type Webhook = AnswerOf<'GET /organizations/{id}/webhooks/{webhook}'>
export type Delivery = AnswerOf<'GET /organizations/{id}/webhooks/{webhook}/deliveries'>['data'][number]

export const labels = {
  url: 'Address',
  events: 'What it hears of',
  former_valid_seconds: 'The present secret',
}

/** `GET /console/webhooks` */
export async function webhooksPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels)
  const cursor = visit.query.get('cursor') ?? undefined
  const listed = await visit.api.call('GET /organizations/{id}/webhooks', {
    params: { id: organizationId(visit) },
    query: { limit: '50', ...(cursor === undefined ? {} : { cursor }) },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  return {
    status: filled.problem?.status ?? 200,
    title: 'Webhooks',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Webhooks</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            A program of yours gets a signed message for each event that it hears of. A message has ids, names
            and a link, and no parameters of calls.
          </p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={{ delete: 'The webhook is deleted. What waited for it is not sent.' }} />
        {data.length === 0 ? (
          <Empty title="No program hears of events yet.">
            {isAtLeast(visit, 'owner')
              ? 'Write the address of the first one below.'
              : 'An owner of the organization makes webhooks. Ask one.'}
          </Empty>
        ) : (
          <Table
            label="Webhooks"
            head={['Program at', 'Hears of', 'State', 'Newest message']}
            rows={data.map((webhook) => rowOf(webhook, visit.now))}
          />
        )}
        <Pager
          path={webhooksPath}
          chosen={{ cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'First webhooks', next: 'More webhooks' }}
        />
        {isAtLeast(visit, 'owner') ? <NewWebhook visit={visit} filled={filled} /> : onlyOwners}
      </article>
    ),
  }
}

export const onlyOwners = <p class="quiet">An owner of the organization makes, tests and changes webhooks.</p>

const rowOf = (webhook: Webhook, now: Date) => [
  <a href={webhookPath(webhook.id)}>
    <Words text={webhook.host} most={253} />
  </a>,
  heardWords(webhook.events),
  <>
    <WebhookState webhook={webhook} />
    {!webhook.active || webhook.failing_since === null ? null : (
      <p class="quiet small">
        for <Time at={webhook.failing_since} now={now} isLength />
      </p>
    )}
  </>,
  webhook.last_delivery === null ? (
    <span class="quiet">none yet</span>
  ) : (
    <>
      <DeliveryState delivery={webhook.last_delivery} isOff={!webhook.active} />{' '}
      <Time at={webhook.last_delivery.last_attempt_at ?? webhook.last_delivery.created_at} now={now} />
      <WhatFailed delivery={webhook.last_delivery} />
    </>
  ),
]

function heardWords(events: readonly string[]): string {
  const [first = '', ...more] = events.map(eventWords)
  if (more.length === 0) return first
  return events.length === eventOptions.length ? 'Everything' : `${first}, and ${more.length} more`
}

export function WebhookState({ webhook }: { webhook: Webhook }) {
  if (!webhook.active) return <Badge tone="off" word="Off" />
  return webhook.failing_since === null ? <Badge tone="good" word="On" /> : <Badge tone="warn" word="Fails" />
}

export const states: Readonly<Record<Delivery['state'], readonly [Tone, string]>> = {
  waiting: ['wait', 'Waits'],
  delivered: ['good', 'Arrived'],
  failed: ['bad', 'Given up'],
}

/** `isOff`: the webhook is, so what waits pauses. */
export function DeliveryState(props: { delivery: Delivery; isOff: boolean }) {
  const { state, attempts } = props.delivery
  const [tone, word] = states[state]
  if (state === 'waiting' && props.isOff) return <Badge tone="off" word="Off" />
  return <Badge tone={tone} word={state === 'waiting' && attempts > 0 ? 'Tried again' : word} />
}

export const WhatFailed = ({ delivery: { last_error: error, state } }: { delivery: Delivery }) =>
  error === null || state === 'delivered' ? null : (
    <p class="quiet small">
      <Cause error={error} />
    </p>
  )

/** Checked at first: what somebody who decides elsewhere wants to hear. */
const usual = ['approval.created', 'approval.decided', 'run.failed', 'effect.unknown']

const NewWebhook = ({ visit, filled }: { visit: PersonsVisit; filled: Filled }) => (
  <section class="card" aria-labelledby="new">
    <h2 id="new">Make a webhook</h2>
    <PostForm action={webhooksPath} token={visit.token} class="fill">
      <OnceField />
      <WebhookFields url="" events={usual} filled={filled} />
      <button class="primary">Make the webhook</button>
    </PostForm>
  </section>
)

export const WebhookFields = (props: { url: string; events: readonly string[]; filled: Filled }) => (
  <>
    <Field
      name="url"
      most={2_000}
      value={props.url}
      help="It begins with https:// and is reached from everywhere, such as https://example.com/hooks."
      filled={props.filled}
    />
    <Checks name="events" options={eventOptions} checked={props.events} filled={props.filled} />
  </>
)

type Body = BodyOf<'POST /organizations/{id}/webhooks'>

export const bodyOf = (form: Form): Body => ({
  url: (form.get('url') ?? '').trim(),
  events: form.getAll('events') as Body['events'],
})

/** `POST /console/webhooks` */
export async function createWebhook(visit: PersonsVisit, form: Form): Promise<Shown> {
  const made = await visit.api.call('POST /organizations/{id}/webhooks', {
    params: { id: organizationId(visit) },
    body: bodyOf(form),
    ...onceOf(form),
  })
  return made.ok ? secretOf(made.body, 'new') : webhooksPage(visit, { form, problem: made })
}

export const secretOf = (
  { id, secret, former_secret_until: until }: NewSecret,
  kind: 'new' | 'rotated',
): Shown =>
  secretPage({
    title: kind === 'new' ? 'The secret of your webhook' : 'The new secret of your webhook',
    label: 'The secret',
    secret,
    inside: (
      <>
        <p>
          Your program checks with it that a message is from this service: each one is signed, as Standard
          Webhooks says.
        </p>
        {until === null ? null : (
          <p>
            The secret before it also signs each message until <Moment at={until} />.
          </p>
        )}
      </>
    ),
    after: (
      <p>
        <a href={webhookPath(id)}>
          {kind === 'new' ? 'Go to the webhook, and test it' : 'Go to the webhook'}
        </a>
      </p>
    ),
  })

type NewSecret = AnswerOf<'POST /organizations/{id}/webhooks/{webhook}/rotate-secret'>
