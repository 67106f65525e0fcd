import { connectPath } from '../../contract/pages.ts'
import { isAtLeast, organizationId, type Form, type PersonsVisit } from '../visit.ts'
import type { Service } from './connect-form.tsx'
import { onceOf } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'

/* In development, `npm start` runs stand-ins for some services. A button connects the organization to one of them. */

/** The value of the button. */
export const useStandIn = 'stand-in'

/** For admins. Elsewhere than in development, no service has one. */
export function StandInForms({ services, visit }: { services: readonly Service[]; visit: PersonsVisit }) {
  const offered = services.filter(({ stand_in: address }) => address !== null)
  if (offered.length === 0 || !isAtLeast(visit, 'admin')) return null
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

/** null: there is none. */
export function connectStandIn(
  visit: PersonsVisit,
  { title, tools, stand_in: address }: Service,
  form: Form,
) {
  const [tool] = tools
  if (address === null || tool === undefined) return null
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

/** On the page of a connection to it. */
export function StandInNote({ service, host }: { service: Service | undefined; host: string }) {
  const address = service?.stand_in ?? null
  if (service === undefined || address === null || new URL(address).host !== host) return null
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
