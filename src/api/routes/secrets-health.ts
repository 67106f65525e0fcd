import { z } from 'zod'
import { organizationQuery } from '../query.ts'
import { ok, route } from '../route.ts'

const check = z.string().describe('`ok`, or a sentence that says what to change; never a secret or its name.')

export const getSecretsHealth = route({
  key: 'GET /health/secrets',
  summary: 'Whether the backend of credentials answers, and lets the service list and read',
  tag: 'Service',
  query: organizationQuery,
  responses: {
    200: z
      .strictObject({
        status: z.enum(['ok', 'degraded']),
        backend: z.enum(['db', 'aws_secrets_manager']),
        checks: z.strictObject({ list_secrets: check, get_secret: check }),
      })
      .meta({ id: 'SecretsHealth' }),
  },
  // The handler waits for the backend of the secrets, which may be slow.
  waits: true,
  async handle({ context }) {
    const checks = await context.secrets.check()
    const isFine = Object.values(checks).every((each) => each === 'ok')
    return ok({ status: isFine ? 'ok' : 'degraded', backend: context.secrets.backend, checks })
  },
})
