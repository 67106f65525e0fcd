import { actOnce } from '../../governance/idempotency.ts'
import { createOrganization } from '../../governance/people/organizations.ts'
import { created, route } from '../route.ts'
import { organization, organizationBody } from '../schemas/people.ts'

export const postOrganization = route({
  key: 'POST /organizations',
  summary: 'Create an organization on plan `free`; you become its owner',
  tag: 'Identity',
  body: organizationBody,
  responses: { 201: organization },
  async handle({ context, caller, body, once }) {
    return created(await actOnce(once, () => createOrganization(context, caller, body.name, once)))
  },
})
