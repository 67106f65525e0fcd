import { connectPath } from '../../contract/pages.ts'
import { isAtLeast, organizationId, type Form, type PersonsVisit } from '../visit.ts'
import type { Service } from './connect-form.tsx'
import { onceOf } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { nothingDone } from './waiting.tsx'

/* In development, `npm start` runs stand-ins for some services. A button connects the organization to one of them. */

/** The value of the button. */
export const useStandIn = 'stand-in'

/** The services for which admins are offered one: it would take the place of the organization's connection. */
export async function standInsFor(
  visit: PersonsVisit,
  services: readonly Service[],
): Promise<readonly Service[]> {
  const some = services.filter(({ stand_in: address }) => address !== null)
  if (some.length === 0 || !isAtLeast(visit, 'admin')) return []
  const connected = await connectionsOf(visit)
  return some.filter(({ name }) => connected?.every(({ integration }) => integration !== name))
}

/** Those of the organization that are not revoked. null if not all can be read. */
async function connectionsOf(visit: PersonsVisit) {
  const query = { organization_id: organizationId(visit), limit: '200' }
  const listed = await visit.api.call('GET /connections', { query })
  if (!listed.ok || listed.body.next_cursor !== null) return null
  return listed.body.data.filter(({ owner_id: owner, status }) => owner === null && status !== 'revoked')
}

/** Elsewhere than in development, no service has one. `offered`: those of `standInsFor`. */
export function StandInForms({ offered, visit }: { offered: readonly Service[]; visit: PersonsVisit }) {
  if (offered.length === 0) return null
  return (
    <div class="stack">
      {offered.map(({ name, title }) => (
        <PostForm action={connectPath} token={visit.token}>
          <OnceField />
          <input type="hidden" name="service" value={name} />
          <button name="action" value={useStandIn}>
            {`Use a stand-in for ${title} (development only)`}
          </button>
        </PostForm>
      ))}
      <p class="quiet small">
        A stand-in runs on the machine of this service, and keeps what all its organizations post. Nothing
        leaves the machine. It runs only while the service listens on a loopback address (HOST).
      </p>
    </div>
  )
}

const hostOf = (address: string): string => new URL(address).host

/** null: there is none. An older page still offers one; it may only take the place of another stand-in. */
export async function connectStandIn(
  visit: PersonsVisit,
  { name, title, tools, stand_in: address }: Service,
  form: Form,
) {
  const [tool] = tools
  if (address === null || tool === undefined) return null
  const connected = await connectionsOf(visit)
  const isTaken = connected?.some((each) => each.integration === name && each.destination !== hostOf(address))
  if (isTaken !== false) return { ...nothingDone, message: takenBy(title) }
  return visit.api.call('POST /tools/{name}/connect', {
    params: { name: tool },
    query: { organization_id: organizationId(visit) },
    body: {
      scope: 'organization',
      name: `Stand-in for ${title} (development only)`,
      credential: { token: 'stand-in', base_url: address },
    },
    ...onceOf(form),
  })
}

const takenBy = (title: string): string =>
  `the organization has a connection to ${title}: revoke it first, if a stand-in should take its place`

/** On the page of a connection to it. */
export function StandInNote({ service, host }: { service: Service | undefined; host: string }) {
  const address = service?.stand_in ?? null
  if (service === undefined || address === null || hostOf(address) !== host) return null
  return (
    <p class="note">
      {`This is a stand-in for ${service.title}, for development only: nothing reaches ${service.title}. `}
      <a href={new URL('/', address).href} rel="noreferrer">
        See what was posted to it
      </a>
      , on the machine of the service.
    </p>
  )
}
