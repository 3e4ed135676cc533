"""As djangoproject.com has them: lists with links and pictures, paths, filters of their own, keys in the form."""

from __future__ import annotations

from django.db import models


class Entry(models.Model):
    headline = models.CharField(max_length=100)
    slug = models.SlugField()
    body = models.TextField()
    body_html = models.TextField()


class Upload(models.Model):
    title = models.CharField(max_length=100)
    alt_text = models.CharField(max_length=100)
    url = models.URLField()


class Releaser(models.Model):
    name = models.CharField(max_length=100)
    key_id = models.CharField(max_length=100)
    key_url = models.URLField()


class Release(models.Model):
    version = models.CharField(max_length=16, primary_key=True)
    date = models.DateField(null=True, blank=True)
    is_lts = models.BooleanField("LTS", default=False)


class Issue(models.Model):
    cve_year_number = models.CharField(max_length=20, unique=True)
    summary = models.CharField(max_length=100)
    score = models.DecimalField(max_digits=3, decimal_places=1, null=True, blank=True)
    commit_hash_main = models.CharField(max_length=128, blank=True)
    releases = models.ManyToManyField(Release, through="Fix")  # type: ignore[var-annotated]

    @property
    def severity(self) -> str:
        return "high" if self.score and self.score >= 7 else "low"


class Fix(models.Model):
    issue = models.ForeignKey(Issue, models.CASCADE)
    release = models.ForeignKey(Release, models.CASCADE)
    commit_hash = models.CharField(max_length=128, blank=True)


class Member(models.Model):
    name = models.CharField(max_length=100)
    inactive = models.BooleanField(default=False)
    level = models.IntegerField(choices=[(1, "Silver"), (2, "Gold")], default=1)


class Invoice(models.Model):
    member = models.ForeignKey(Member, models.CASCADE)
    sent = models.DateField(null=True, blank=True)
    amount = models.IntegerField()


class Hero(models.Model):
    id = models.CharField(max_length=12, primary_key=True)
    name = models.CharField(max_length=100)
    approved = models.BooleanField(null=True)


class Donation(models.Model):
    id = models.CharField(max_length=12, primary_key=True)
    hero = models.ForeignKey(Hero, models.SET_NULL, null=True, blank=True)
    created = models.DateTimeField()


class Payment(models.Model):
    donation = models.ForeignKey(Donation, models.CASCADE)
    amount = models.DecimalField(max_digits=9, decimal_places=2)
    stripe_charge_id = models.CharField(max_length=100)


class Meeting(models.Model):
    title = models.CharField(max_length=100)
    slug = models.SlugField()
    treasurer_report = models.TextField(blank=True)
