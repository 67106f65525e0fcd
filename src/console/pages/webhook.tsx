import type { BodyOf } from '../../api/routes/index.ts'
import { auditPath, webhookPath, webhooksPath } from '../../contract/pages.ts'
import { eventWords } from '../parts/events.tsx'
import {
  changedSince,
  Confirm,
  empty,
  labelled,
  onceOf,
  Refused,
  Seen,
  Select,
  Told,
  type Filled,
} from '../parts/form.tsx'
import { Live, OnceField, PostForm } from '../parts/layout.tsx'
import { actions, Choice, chosenOf, Empty, Filters, Pager, Table } from '../parts/list.tsx'
import { Host } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { Message, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, type Form, type PersonsVisit, type Result, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import {
  bodyOf,
  DeliveryState,
  labels,
  onlyOwners,
  secretOf,
  states,
  WebhookFields,
  WebhookState,
  WhatFailed,
  type Delivery,
  type Webhook,
} from './webhooks.tsx'

/* One webhook: what it hears of, its messages, and for owners what can be done with it. */

const namedBy = (visit: PersonsVisit) => ({ id: organizationId(visit), webhook: visit.params['id'] ?? '' })

/** `GET /console/webhooks/:id` */
export async function webhookPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels)
  const params = namedBy(visit)
  const chosen = chosenOf(visit.query, ['state', 'cursor'])
  const [found, listed] = await Promise.all([
    visit.api.call('GET /organizations/{id}/webhooks/{webhook}', { params }),
    visit.api.call('GET /organizations/{id}/webhooks/{webhook}/deliveries', {
      params,
      query: { ...chosen, limit: '20' },
    }),
  ])
  if (!found.ok) return problemPage(found, visit.place)
  if (!listed.ok) return problemPage(listed, visit.place)
  const webhook = found.body
  return {
    status: filled.problem?.status ?? 200,
    title: `Webhook to ${webhook.host}`,
    main: (
      <article class="page">
        <header class="headline">
          <p class="crumbs small">
            <a href={webhooksPath}>Webhooks</a>
          </p>
          <h1>
            <Host host={webhook.host} />
          </h1>
          <p>
            <WebhookState webhook={webhook} />
          </p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <Troubles webhook={webhook} now={visit.now} />
        <Facts facts={factsOf(webhook, visit.now)} />
        {isAtLeast(visit, 'owner') ? <Daily webhook={webhook} token={visit.token} /> : onlyOwners}
        <Deliveries
          webhook={webhook}
          visit={visit}
          deliveries={listed.body.data}
          next={listed.body.next_cursor}
          chosen={chosen}
        />
        {isAtLeast(visit, 'owner') ? <Changes webhook={webhook} visit={visit} filled={filled} /> : null}
      </article>
    ),
  }
}

const results = {
  test: 'A test is on its way. Below stands how it ends.',
  redeliver: 'The message is sent again.',
  off: 'The webhook is off. It hears of nothing that happens now, and what waits for it pauses.',
  on: 'The webhook is on. What still waits for it goes on.',
  save: 'The change is saved. It holds from the next event on.',
}

function Troubles({
  webhook: { active, disabled_reason: why, failing_since: since },
  now,
}: {
  webhook: Webhook
  now: Date
}) {
  if (!active)
    return (
      <p class="note">
        {why === null ? (
          'An owner has turned it off: it hears of nothing.'
        ) : (
          <>
            The service has turned it off: <Message text={why} /> Mend the program, and turn it on again.
          </>
        )}
      </p>
    )
  return since === null ? null : (
    <p class="note">
      Nothing has arrived for <Time at={since} now={now} isLength />. A message is tried again for a day, and
      after three days the webhook is turned off. The newest message says what failed.
    </p>
  )
}

function factsOf(webhook: Webhook, now: Date) {
  const { url, events, former_secret_until: until } = webhook
  return [
    [
      'Address',
      url === null ? (
        <span class="quiet">Only owners see it, because it can contain a token.</span>
      ) : (
        <code class="whole">
          <Words text={url} most={2_000} />
        </code>
      ),
    ],
    [
      'Hears of',
      <ul class="bullets">
        {events.map((event) => (
          <li>{eventWords(event)}</li>
        ))}
      </ul>,
    ],
    ['Made', <Time at={webhook.created_at} now={now} />],
    ['The old secret also signs until', until === null ? null : <Time at={until} now={now} exact />],
    ['Changes', <a href={`${auditPath}?event_type=webhook.updated`}>In the audit log</a>],
  ] as const
}

const Daily = ({ webhook, token }: { webhook: Webhook; token: string }) => (
  <PostForm action={webhookPath(webhook.id)} token={token} class="links">
    <OnceField />
    {webhook.active ? (
      <>
        <button name="action" value="test" class="primary">
          Send a test
        </button>
        <button name="action" value="off">
          Turn off
        </button>
      </>
    ) : (
      <button name="action" value="on" class="primary">
        Turn on
      </button>
    )}
  </PostForm>
)

function Changes({ webhook, visit, filled }: { webhook: Webhook; visit: PersonsVisit; filled: Filled }) {
  const path = webhookPath(webhook.id)
  const isRefused = filled.problem !== null && filled.form !== null
  return (
    <>
      <h2>Change it</h2>
      <details open={isRefused}>
        <summary class="button">Change …</summary>
        <PostForm action={path} token={visit.token} class="card fill">
          <Seen value={seenOf(webhook)} filled={filled} />
          <WebhookFields url={webhook.url ?? ''} events={webhook.events} filled={filled} />
          <button class="primary" name="action" value="save">
            Save
          </button>
        </PostForm>
      </details>
      <Confirm
        action={path}
        token={visit.token}
        value="rotate"
        open="Make a new secret …"
        explanation="You see the new secret once. Give it to your program while the present one still signs too."
        sure="Make a new secret"
      >
        <Select
          name="former_valid_seconds"
          label={labels.former_valid_seconds}
          options={[
            ['86400', 'also signs for a day'],
            ['604800', 'also signs for a week'],
            ['3600', 'also signs for an hour'],
            ['0', 'ends at once, because somebody else may know it'],
          ]}
        />
      </Confirm>
      <Confirm
        action={path}
        token={visit.token}
        value="delete"
        open="Delete the webhook …"
        explanation="Its program hears of nothing any more, and what waits for it is never sent."
        sure="Delete the webhook"
      />
    </>
  )
}

const seenOf = ({ url, events }: Webhook) => ({ url, events })

function Deliveries(props: {
  webhook: Webhook
  visit: PersonsVisit
  deliveries: readonly Delivery[]
  next: string | null
  chosen: { readonly state?: string; readonly cursor?: string }
}) {
  const { webhook, visit, deliveries, next, chosen } = props
  const path = webhookPath(webhook.id)
  const isOpen =
    webhook.active &&
    (visit.query.get('done') === 'test' || deliveries.some(({ state }) => state === 'waiting'))
  const mayAct = isAtLeast(visit, 'owner') && webhook.active
  return (
    <section class="stack" aria-labelledby="messages">
      <h2 id="messages">Messages</h2>
      <Filters path={path} chosen={chosen} names={['state']} title="Filter">
        <Choice
          name="state"
          label="State"
          chosen={chosen}
          options={Object.entries(states).map(([state, [, word]]) => [state, word] as const)}
        />
      </Filters>
      <Live
        name="deliveries"
        version={deliveries.map(({ id, state, attempts }) => `${id}${state}${attempts}`).join()}
        data-poll={isOpen ? '' : undefined}
      >
        {deliveries.length === 0 ? (
          <Empty
            title={
              chosen.state !== undefined
                ? 'No message is like this.'
                : isOpen
                  ? 'The test is on its way.'
                  : 'Nothing was sent yet.'
            }
          >
            {chosen.state === undefined
              ? isOpen
                ? 'It is listed here in a moment. Without JavaScript, load the page again.'
                : 'An owner sends a test, or an event happens. Messages are kept for 30 days.'
              : 'Choose another state.'}
          </Empty>
        ) : (
          <Table
            label="Messages"
            head={['Event', 'State', 'Attempts', 'When', ...(mayAct ? [actions] : [])]}
            rows={deliveries.map((delivery) =>
              deliveryRow(delivery, { visit, isOff: !webhook.active, path: mayAct ? path : null }),
            )}
          />
        )}
      </Live>
      <Pager
        path={path}
        chosen={chosen}
        cursor="cursor"
        next={next}
        words={{ first: 'Newest messages', next: 'Older messages' }}
      />
    </section>
  )
}

/** `path`: the page whose form sends it again; null for people who may not. */
const deliveryRow = (
  delivery: Delivery,
  {
    visit: { now, token },
    isOff,
    path,
  }: { readonly visit: PersonsVisit; readonly isOff: boolean; readonly path: string | null },
) => [
  <>
    {eventWords(delivery.event_type)}
    <WhatFailed delivery={delivery} />
  </>,
  <DeliveryState delivery={delivery} isOff={isOff} />,
  <Attempts delivery={delivery} isOff={isOff} now={now} />,
  <Time at={delivery.created_at} now={now} />,
  ...(path === null ? [] : [<Redeliver delivery={delivery} path={path} token={token} />]),
]

function Attempts({ delivery, isOff, now }: { delivery: Delivery; isOff: boolean; now: Date }) {
  const { attempts, next_attempt_at: next, last_status: status } = delivery
  return (
    <>
      {attempts}
      {status === null ? null : <span class="quiet">{`, last answer ${status}`}</span>}
      {next === null || isOff || attempts === 0 || new Date(next) <= now ? null : (
        <span class="quiet">
          , next <Time at={next} now={now} />
        </span>
      )}
    </>
  )
}

/** One that was never tried is on its way. */
const Redeliver = (props: { delivery: Delivery; path: string; token: string }) =>
  props.delivery.attempts === 0 ? null : (
    <PostForm action={props.path} token={props.token}>
      <OnceField />
      <input type="hidden" name="delivery" value={props.delivery.id} />
      <button name="action" value="redeliver">
        Send again<span class="unseen">{` ${eventWords(props.delivery.event_type)}`}</span>
      </button>
    </PostForm>
  )

/** `POST /console/webhooks/:id` */
export async function changeWebhook(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  if (action === 'rotate') return rotate(visit, form)
  const done = await changeOf(visit, form, action)
  if (!done.ok) return webhookPage(visit, { form: action === 'save' ? form : null, problem: done })
  const path = action === 'delete' ? webhooksPath : webhookPath(visit.params['id'] ?? '')
  return { redirect: `${path}?done=${action}` }
}

async function rotate(visit: PersonsVisit, form: Form): Promise<Shown> {
  const made = await visit.api.call('POST /organizations/{id}/webhooks/{webhook}/rotate-secret', {
    params: namedBy(visit),
    body: { former_valid_seconds: Number(form.get('former_valid_seconds') ?? '86400') },
    ...onceOf(form),
  })
  return made.ok ? secretOf(made.body, 'rotated') : webhookPage(visit, { form: null, problem: made })
}

async function changeOf(visit: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  const { api } = visit
  const params = namedBy(visit)
  const change = (body: BodyOf<'PATCH /organizations/{id}/webhooks/{webhook}'>) =>
    api.call('PATCH /organizations/{id}/webhooks/{webhook}', { params, body })
  switch (action) {
    case 'test':
      return api.call('POST /organizations/{id}/webhooks/{webhook}/test', {
        params,
        ...onceOf(form),
      })
    case 'redeliver':
      return api.call('POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver', {
        params: { ...params, delivery: form.get('delivery') ?? '' },
        ...onceOf(form),
      })
    case 'off':
    case 'on':
      return change({ active: action === 'on' })
    case 'save':
      return save(visit, form, change)
    case 'delete':
      return api.call('DELETE /organizations/{id}/webhooks/{webhook}', { params })
  }
  return nothingDone
}

/** An address that is sent again begins anew, so only what is another one now is sent. */
async function save(
  visit: PersonsVisit,
  form: Form,
  change: (body: BodyOf<'PATCH /organizations/{id}/webhooks/{webhook}'>) => Promise<Result<unknown>>,
): Promise<Result<unknown>> {
  const found = await visit.api.call('GET /organizations/{id}/webhooks/{webhook}', { params: namedBy(visit) })
  if (!found.ok) return found
  const [wanted, now] = [bodyOf(form), seenOf(found.body)]
  const body = {
    ...(wanted.url === now.url ? {} : { url: wanted.url }),
    ...(wanted.events.join() === now.events.join() ? {} : { events: wanted.events }),
  }
  if (Object.keys(body).length === 0) return found
  return changedSince(form, now) ?? change(body)
}
