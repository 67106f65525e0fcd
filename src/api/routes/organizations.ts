import { z } from 'zod'
import { actOnce } from '../../governance/idempotency.ts'
import { createOrganization } from '../../governance/organizations.ts'
import { lineField } from '../../policy/text.ts'
import { created, route } from '../route.ts'
import { organization } from '../schemas/people.ts'

export const postOrganization = route({
  key: 'POST /organizations',
  summary: 'Make an organization, on plan free; you become its owner',
  tag: 'Identity',
  body: z.strictObject({ name: lineField(200) }),
  responses: { 201: organization },
  async handle({ context, caller, body, once }) {
    return created(await actOnce(once, () => createOrganization(context, caller, body.name, once)))
  },
})
