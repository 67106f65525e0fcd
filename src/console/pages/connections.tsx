import type { AnswerOf } from '../../api/routes/index.ts'
import { connectionPath, connectionsPath, connectPath, toolPath } from '../../contract/pages.ts'
import {
  CredentialFields,
  credentialOf,
  labelsOfWay,
  waysOf,
  withoutSecrets,
  type Service,
  type Way,
} from '../parts/connect-form.tsx'
import { Confirm, empty, Field, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { Empty, Pager, Table } from '../parts/list.tsx'
import { connectStandIn, StandInForms, StandInNote, standInsFor, useStandIn } from '../parts/stand-in.tsx'
import { Badge, Host } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { serviceWords } from '../parts/tool-policy.tsx'
import { Facts } from '../parts/values.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, type Form, type PersonsVisit, type Result, type Shown } from '../visit.ts'
import { plainPage, problemPage } from './plain.tsx'

/*
 * `/console/connections`: the accounts of services that calls use. Members connect their own, and admins also the
 * organization's.
 */

type Connection = AnswerOf<'GET /connections/{id}'>

/** `GET /console/connections` */
export async function connectionsPage(visit: PersonsVisit): Promise<Shown> {
  const cursor = visit.query.get('cursor') ?? undefined
  const listed = await visit.api.call('GET /connections', {
    query: {
      organization_id: organizationId(visit),
      limit: '50',
      ...(cursor === undefined ? {} : { cursor }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const [revoked, live] = [data.filter(isRevoked), data.filter((each) => !isRevoked(each))]
  const mayConnect = isAtLeast(visit, 'member')
  return {
    status: 200,
    title: 'Connections',
    main: (
      <article class="page">
        <header class="headline">
          <div class="split">
            <h1>Connections</h1>
            {mayConnect ? (
              <a class="button primary" href={connectPath}>
                Connect a service
              </a>
            ) : null}
          </div>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            A call works with the account of who started the run, else with the organization’s. Rules decide
            the call as before.
          </p>
        </header>
        <Told visit={visit} results={{ revoke: 'The connection is revoked. No call uses it any more.' }} />
        {live.length === 0 && cursor === undefined ? (
          <Empty title="Nothing is connected yet.">
            {mayConnect ? (
              <>
                Tools of GitHub, Slack, Google and other services need an account.{' '}
                <a href={connectPath}>Connect the first service</a>.
              </>
            ) : (
              'Members connect services for themselves, and admins for everybody: ask one of them.'
            )}
          </Empty>
        ) : (
          <List label="Connections" connections={live} visit={visit} />
        )}
        {revoked.length === 0 ? null : (
          <details>
            <summary class="button">{`Revoked (${revoked.length})`}</summary>
            <List label="Revoked connections" connections={revoked} visit={visit} />
          </details>
        )}
        <Pager
          path={connectionsPath}
          chosen={{ cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'First connections', next: 'More connections' }}
        />
        {mayConnect ? null : <p class="quiet">A member, admin or owner connects services.</p>}
      </article>
    ),
  }
}

const isRevoked = ({ status }: Connection): boolean => status === 'revoked'

const List = (props: { label: string; connections: readonly Connection[]; visit: PersonsVisit }) =>
  props.connections.length === 0 ? null : (
    <Table
      label={props.label}
      head={['Name', 'Service and account', 'Whose', 'Goes to', 'Used', 'State']}
      rows={props.connections.map((each) => [
        <a href={connectionPath(each.id)}>
          <Words text={each.name} most={100} />
        </a>,
        <>
          {serviceWords({ service: each.integration })}: {accountOf(each)}
        </>,
        whoseOf(each, props.visit),
        <Host host={each.destination} />,
        usedOf(each, props.visit),
        <State status={each.status} />,
      ])}
    />
  )

const accountOf = ({ account }: Connection) =>
  account === null ? <span class="quiet">not named</span> : <Words text={account} most={200} />

const whoseOf = ({ owner_id: id, owner_email: email }: Connection, { person }: PersonsVisit) =>
  id === null ? 'Everybody’s' : id === person.user.id ? 'Yours' : <Words text={email ?? id} most={254} />

const usedOf = ({ last_used_at: used }: Connection, { now }: PersonsVisit) =>
  used === null ? 'never' : <Time at={used} now={now} />

const State = ({ status }: Pick<Connection, 'status'>) =>
  status === 'active' ? (
    <Badge tone="good" word="Works" />
  ) : status === 'expired' ? (
    <Badge tone="bad" word="Expired: connect again" />
  ) : (
    <Badge tone="off" word="Revoked" />
  )

const servicesOf = async ({ api }: PersonsVisit): Promise<readonly Service[]> => {
  const listed = await api.call('GET /services')
  return listed.ok ? listed.body.data : []
}

/** `GET /console/connections/new` */
export async function connectPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  if (!isAtLeast(visit, 'member'))
    return problemPage({ status: 403, code: 'insufficient_role', message: 'A member connects a service.' }, visit.place) // prettier-ignore
  const services = await servicesOf(visit)
  const chosen = chosenOf(services, given.form ?? visit.query)
  if (chosen === null)
    return {
      status: 200,
      title: 'Connect a service',
      main: <Choice services={services} offered={await standInsFor(visit, services)} visit={visit} />,
    }
  const { service, ways, place } = chosen
  const way = ways[place] as Way
  const form = given.form === null ? null : withoutSecrets(way, given.form)
  const filled = labelled({ ...given, form }, labelsOfWay(way), {}, 'Nothing was connected. Change this:')
  const title = `Connect ${serviceWords({ service: service.name })}`
  return {
    status: filled.problem?.status ?? 200,
    title,
    main: (
      <article class="page medium">
        <header class="headline">
          <p>
            <a href={connectPath}>All services</a>
          </p>
          <h1>{title}</h1>
          <p>
            One connection serves <Tools names={service.tools} />.
          </p>
        </header>
        <Refused filled={filled} />
        {ways.length === 1 ? null : <Ways service={service} ways={ways} place={place} />}
        <PostForm action={connectPath} token={visit.token} class="card fill">
          <OnceField />
          <input type="hidden" name="service" value={service.name} />
          <input type="hidden" name="way" value={String(place)} />
          <CredentialFields way={way} filled={filled} visit={visit} />
          <p class="quiet small">
            {isByBrowser(way)
              ? 'The service asks you there, and sends you back.'
              : 'It is tried with a harmless call before anything is saved. Secrets are kept sealed, and no page shows them again.'}{' '}
            It takes the place of the present connection to this service, if there is one.
          </p>
          <button class="primary">{isByBrowser(way) ? 'Go on' : 'Test and connect'}</button>
        </PostForm>
      </article>
    ),
  }
}

const isByBrowser = ({ fields }: Way): boolean => fields.length === 0

/** `given`: the form, or the query of the page. */
function chosenOf(services: readonly Service[], given: Form) {
  const service = services.find(({ name }) => name === given.get('service'))
  if (service === undefined) return null
  const ways = waysOf(service)
  const place = Number(given.get('way'))
  return { service, ways, place: ways[place] === undefined ? 0 : place }
}

const newPath = (service: string, way = 0): string => `${connectPath}?service=${service}&way=${way}`

const Choice = (props: {
  services: readonly Service[]
  offered: readonly Service[]
  visit: PersonsVisit
}) => (
  <article class="page">
    <header class="headline">
      <p>
        <a href={connectionsPath}>All connections</a>
      </p>
      <h1>Connect a service</h1>
    </header>
    <StandInForms offered={props.offered} visit={props.visit} />
    <Table
      label="Services"
      head={['Service', 'Its tools']}
      rows={props.services.map((service) => [
        <a href={newPath(service.name)}>{serviceWords({ service: service.name })}</a>,
        <Tools names={service.tools} />,
      ])}
    />
  </article>
)

const Tools = ({ names }: { names: readonly string[] }) => (
  <>
    {names.map((name, place) => (
      <>
        {place === 0 ? '' : ', '}
        <a href={toolPath(name)}>{name}</a>
      </>
    ))}
  </>
)

const Ways = (props: { service: Service; ways: readonly Way[]; place: number }) => (
  <nav class="links" aria-label="How to connect">
    {props.ways.map(({ title }, place) =>
      place === props.place ? (
        <strong>{title}</strong>
      ) : (
        <a href={newPath(props.service.name, place)}>{title}</a>
      ),
    )}
  </nav>
)

/** `POST /console/connections/new` */
export async function connectService(visit: PersonsVisit, form: Form): Promise<Shown> {
  const chosen = chosenOf(await servicesOf(visit), form)
  const tool = chosen?.service.tools[0]
  if (chosen === null || tool === undefined) return connectPage(visit)
  if (form.get('action') === useStandIn) return connectedTo(visit, form, chosen.service)
  const credential = credentialOf(chosen.ways[chosen.place] as Way, form)
  const name = (form.get('name') ?? '').trim()
  const made = await visit.api.call('POST /tools/{name}/connect', {
    params: { name: tool },
    query: { organization_id: organizationId(visit) },
    body: {
      scope: form.get('scope') === 'organization' ? 'organization' : 'personal',
      ...(name === '' ? {} : { name }),
      ...(credential === null ? {} : { credential }),
    },
    ...onceOf(form),
  })
  if (!made.ok) return connectPage(visit, { form, problem: made })
  if ('id' in made.body) return { redirect: `${connectionPath(made.body.id)}?done=connect` }
  // The policy of pages lets no form lead to another site.
  return plainPage('Go on at the service', null, [
    <p>Sign in there, and allow what the tools need. Then you come back.</p>,
    <p>
      <a class="button primary" href={made.body.authorization_url} rel="noreferrer">
        {`Go to ${serviceWords({ service: chosen.service.name })}`}
      </a>
    </p>,
  ])
}

async function connectedTo(visit: PersonsVisit, form: Form, service: Service): Promise<Shown> {
  const made = await connectStandIn(visit, service, form)
  if (made === null) return connectPage(visit, { form, problem: nothingDone })
  if (!made.ok) return connectPage(visit, { form, problem: made })
  return { redirect: 'id' in made.body ? `${connectionPath(made.body.id)}?done=connect` : connectionsPath }
}

/** `GET /console/connections/:id` */
export async function connectionPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, { name: 'Name' })
  const found = await visit.api.call('GET /connections/{id}', { params: { id: visit.params['id'] ?? '' } })
  if (!found.ok) return problemPage(found, visit.place)
  const connection = found.body
  const service = (await servicesOf(visit)).find(({ name }) => name === connection.integration)
  const tools = service?.tools ?? []
  return {
    status: filled.problem?.status ?? 200,
    title: connection.name,
    main: (
      <article class="page medium">
        <header class="headline">
          <p>
            <a href={connectionsPath}>All connections</a>
          </p>
          <h1>
            <Words text={connection.name} most={200} />
          </h1>
          <p class="badges">
            <State status={connection.status} />
          </p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <StandInNote service={service} host={connection.destination} />
        <About connection={connection} visit={visit} />
        <section class="stack" aria-labelledby="tools">
          <h2 id="tools">Tools that it serves</h2>
          <p>
            <Tools names={tools} />
          </p>
          {connection.lacking_tools.length === 0 ? null : (
            <p class="note">
              The account has not granted the rights of <Tools names={connection.lacking_tools} />: these
              fail. Connect again, and allow them.
            </p>
          )}
        </section>
        {isRevoked(connection) ? null : (
          <Change connection={connection} tools={tools} visit={visit} filled={filled} />
        )}
      </article>
    ),
  }
}

const results = {
  connect: 'The service has accepted it. Calls use it from now on.',
  rename: 'The name is saved.',
}

const About = ({ connection, visit }: { connection: Connection; visit: PersonsVisit }) => (
  <section class="card" aria-label="About the connection">
    <Facts
      facts={[
        ['Service', serviceWords({ service: connection.integration })],
        ['Account', accountOf(connection)],
        ['Whose', whoseOf(connection, visit)],
        [
          'Goes to',
          <>
            <Host host={connection.destination} />{' '}
            <span class="quiet">
              {connection.own_host
                ? 'the service’s own'
                : 'not the service’s own: the operator has allowed it'}
            </span>
          </>,
        ],
        ['Connected', <Time at={connection.created_at} now={visit.now} />],
        ['Used', usedOf(connection, visit)],
      ]}
    />
  </section>
)

function Change(props: {
  connection: Connection
  tools: readonly string[]
  visit: PersonsVisit
  filled: Filled
}) {
  const { connection, tools, visit, filled } = props
  const { id, name, owner_id: ownerId, integration } = connection
  if (ownerId !== visit.person.user.id && !isAtLeast(visit, 'admin'))
    return <p class="quiet">An admin or owner changes the organization’s connections.</p>
  return (
    <>
      <section class="card" aria-labelledby="change">
        <h2 id="change">Change it</h2>
        <PostForm action={connectionPath(id)} token={visit.token} class="fill">
          <Field name="name" most={200} value={name} filled={filled} />
          <button name="action" value="rename">
            Save the name
          </button>
        </PostForm>
        <p>
          <a href={newPath(integration)}>Connect again</a>, with a new secret or another account.
        </p>
      </section>
      <Confirm
        action={connectionPath(id)}
        token={visit.token}
        value="revoke"
        open="Revoke the connection …"
        explanation={
          ownerId === null
            ? 'Its secret is deleted. These tools then work only for people who have an own connection:'
            : 'Its secret is deleted. These tools then work for this person only with the organization’s connection, if there is one:'
        }
        sure={`Revoke ${name}`}
      >
        <p>
          <Tools names={tools} />
        </p>
      </Confirm>
    </>
  )
}

/** `POST /console/connections/:id` */
export async function changeConnection(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  const done = await changeOf(visit, form, action)
  if (!done.ok) return connectionPage(visit, { form, problem: done })
  const path = action === 'revoke' ? connectionsPath : connectionPath(visit.params['id'] ?? '')
  return { redirect: `${path}?done=${action}` }
}

async function changeOf({ api, params }: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  const of = { params: { id: params['id'] ?? '' } }
  switch (action) {
    case 'rename':
      return api.call('PATCH /connections/{id}', { ...of, body: { name: form.get('name') ?? '' } })
    case 'revoke':
      return api.call('DELETE /connections/{id}', of)
  }
  return nothingDone
}
