import { services, titleOf } from '../test/tools/faults/services.ts'
import { named } from '../test/tools/stand-in.ts'

/*
 * Lists the stand-in that the tests use for each service. Says which parts of the stand-in are checked against the
 * vendor's published description.
 */

export const standIns = [
  ...services.flatMap((service) => service.standIns.map((each) => ({ service: titleOf(service), ...each }))),
  {
    service: 'language models',
    standIn: named('@copilotkit/aimock'),
    checked: 'nothing of ours: the clients of the AI SDK read its answers',
    not: 'what a model writes',
  },
  {
    service: 'Tavily',
    standIn: named('@copilotkit/aimock'),
    checked: 'nothing of ours: the tool reads its answers',
    not: 'the requests, and what a search finds',
  },
  {
    service: 'SearXNG, Brave',
    standIn: 'answers written in the tests',
    checked: 'nothing',
    not: 'all of it',
  },
]
