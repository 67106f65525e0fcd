import { z } from 'zod'
import { usualErrors } from '../kit/errors.ts'
import { byStatus, defineIntegration, secret, textIn, type IntegrationSettings } from '../kit/integration.ts'

const credential = z.strictObject({
  email: z
    .string()
    .min(3)
    .max(320)
    .regex(/^[^\s:]+@[^\s:]+$/, 'must be the e-mail address of the account'),
  token: secret.describe('An API token of this account.'),
})

/** `Buffer` does not exist in the bundle of the workflows, which loads the catalogue too. */
const base64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)))

const addresses = (_: unknown, { trackerBaseUrl }: IntegrationSettings): readonly string[] =>
  trackerBaseUrl === null ? [] : [trackerBaseUrl]

export const jira = defineIntegration<z.output<typeof credential>>({
  name: 'jira',
  title: 'Jira',
  credential,
  addresses,
  ownAddresses: addresses,
  missingAddress: 'the operator must set TRACKER_BASE_URL',
  addressSetting: 'TRACKER_BASE_URL',
  headers: ({ email, token }) => ({
    authorization: `Basic ${base64(`${email}:${token}`)}`,
    accept: 'application/json',
  }),
  async check(_, ask) {
    const answer = await ask({ method: 'GET', path: '/rest/api/3/myself' })
    return byStatus(answer, (json) => textIn(json, 'emailAddress') ?? textIn(json, 'displayName'))
  },
  errors: {
    ...usualErrors('jira', '`TRACKER_BASE_URL`', 'installation'),
    jira_refused: [
      'caller',
      'check the project, the type (default `Task`), the labels (no spaces), the query, and which fields the project requires',
    ],
    jira_forbidden: ['credential', 'give the account the permission in the project; check the key'],
    jira_not_found: ['caller', 'give the account the permission in the project; check the key'],
    jira_too_large: ['caller', 'shorten the text or the file'],
    jira_moved: ['caller', 'give the present key: the issue was moved, or the project renamed'],
    jira_other_site: ['caller', 'give a key or a link of the site'],
  },
})
