import './anything/above.ts'
