import '../anything/above.ts'
